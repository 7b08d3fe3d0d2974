// Heatmap and state timeline live inside the Grafana server, not in @grafana/ui: these are plain
// stand-ins on Grafana's chart component and colours, so axes and type look as they do there.

import { getValueFormat } from '@grafana/data';
import { UPlotChart, UPlotConfigBuilder, useTheme2 } from '@grafana/ui';

import { heatmapCells, seriesFrames } from './frames.js';

const ORANGES = [
  [60, 24, 4],
  [166, 54, 3],
  [241, 105, 19],
  [253, 174, 107],
  [254, 230, 206],
];
const MAX_LABELS = 7;

function orange(share) {
  const position = Math.min(share, 0.999) * (ORANGES.length - 1);
  const [low, high] = [ORANGES[Math.floor(position)], ORANGES[Math.floor(position) + 1]];
  const part = position % 1;
  return `rgb(${low.map((each, i) => Math.round(each + (high[i] - each) * part)).join()})`;
}

function label(unit, bound) {
  if (bound === Infinity) return '∞';
  const { text, suffix = '' } = getValueFormat(unit)(bound);
  return `${text.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '')}${suffix}`;
}

/** A chart whose y axis has one slot per row; `draw(plot, rowHeight)` paints the slots. */
function Slots({ names, range, width, height, axisWidth, draw }) {
  const theme = useTheme2();
  const every = Math.ceil(names.length / MAX_LABELS);
  const config = new UPlotConfigBuilder('utc');
  const [start, end] = [range.from * 1000, range.to * 1000];
  config.addScale({ scaleKey: 'x', isTime: true, orientation: 0, direction: 1, range: () => [start, end] });
  config.addScale({ scaleKey: 'y', orientation: 1, direction: 1, range: () => [0, names.length] });
  config.addAxis({ scaleKey: 'x', isTime: true, placement: 'bottom', timeZone: 'utc', theme });
  config.addAxis({
    scaleKey: 'y',
    placement: 'left',
    size: axisWidth,
    theme,
    grid: { show: false },
    splits: () => names.map((_, row) => row + 0.5).filter((_, row) => row % every === 0),
    values: (_, splits) => splits.map((at) => names[Math.floor(at)]),
  });
  config.addSeries({ scaleKey: 'y', theme, drawStyle: 'line', lineWidth: 0, showPoints: 'never' });
  config.addHook('draw', (plot) => draw(plot, plot.bbox.height / names.length));
  config.setPrepData(([frame]) => frame);
  const data = [[start, end], [null, null]];
  return <UPlotChart {...{ config, data, width, height }} />;
}

export function Heatmap({ panel, answers, range, width, height }) {
  const { bounds, cells } = heatmapCells(answers);
  const most = Math.max(...cells.map(({ count }) => count));
  const names = bounds.map((bound) => label(panel.options.yAxis.unit, bound));
  const draw = (plot, rowHeight) => {
    const cellWidth = plot.valToPos(range.step * 1000, 'x', true) - plot.valToPos(0, 'x', true);
    for (const { time, row, count } of cells) {
      plot.ctx.fillStyle = orange(Math.sqrt(count / most));
      const left = plot.valToPos(time - range.step * 1000, 'x', true);
      const top = plot.valToPos(row + 1, 'y', true);
      const gap = panel.options.cellGap;
      plot.ctx.fillRect(left, top, cellWidth - gap + 0.5, rowHeight - gap);
    }
  };
  return <Slots {...{ names, range, width, height, draw }} axisWidth={64} />;
}

export function StateTimeline({ panel, answers, range, width, height }) {
  const theme = useTheme2();
  const frames = seriesFrames(panel, answers, range.step, theme).reverse();
  const draw = (plot, rowHeight) => {
    frames.forEach(({ fields: [time, value] }, row) => {
      plot.ctx.fillStyle = value.display(value.values.at(-1)).color;
      const top = plot.valToPos(row + 1, 'y', true) + rowHeight * 0.1;
      for (const at of time.values) {
        const left = plot.valToPos(at - range.step * 1000, 'x', true);
        const right = plot.valToPos(at, 'x', true);
        plot.ctx.fillRect(left, top, right - left + 1, rowHeight * 0.8);
      }
    });
  };
  const names = frames.map(({ fields }) => fields[1].config.displayNameFromDS);
  return <Slots {...{ names, range, width, height, draw }} axisWidth={220} />;
}
