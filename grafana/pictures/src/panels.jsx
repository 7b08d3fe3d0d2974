// One component per panel type. Stat, time series and table are Grafana's own.

import { dateTime } from '@grafana/data';
import { BigValue, TimeSeries, useTheme2 } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { useLayoutEffect } from 'react';

import { lastValue, seriesFrames, tableFrame } from './frames.js';
import { Heatmap, StateTimeline } from './standins.jsx';

function Empty({ panel, width, height }) {
  const text = panel.fieldConfig.defaults.noValue ?? 'No data';
  const style = { width, height, display: 'grid', placeItems: 'center', opacity: 0.65 };
  return <div style={style}>{text}</div>;
}

function Stat({ panel, answers, range, width, height }) {
  const theme = useTheme2();
  const [frame] = seriesFrames(panel, answers, range.step, theme);
  if (!frame) return <Empty {...{ panel, width, height }} />;
  const field = frame.fields[1];
  const value = field.display(lastValue(field));
  const { colorMode, graphMode, justifyMode } = panel.options;
  const textMode = 'value';
  return (
    <BigValue {...{ value, colorMode, graphMode, justifyMode, textMode, theme, width, height }} />
  );
}

function Marks({ config, marks, theme }) {
  useLayoutEffect(() => {
    config.addHook('draw', (plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      for (const { color, from, to } of marks) {
        const left = plot.valToPos(from * 1000, 'x', true);
        const right = plot.valToPos(to * 1000, 'x', true);
        if (right < bbox.left || left > bbox.left + bbox.width) continue;
        ctx.strokeStyle = ctx.fillStyle = theme.visualization.getColorByName(color);
        ctx.setLineDash([4, 4]);
        ctx.beginPath();
        ctx.moveTo(left, bbox.top);
        ctx.lineTo(left, bbox.top + bbox.height);
        ctx.stroke();
        ctx.globalAlpha = 0.08;
        ctx.fillRect(left, bbox.top, right - left, bbox.height);
        ctx.globalAlpha = 1;
        ctx.fillRect(left - 2, bbox.top + bbox.height, Math.max(right - left, 4), 4);
      }
      ctx.restore();
    });
  }, [config]);
  return null;
}

function Lines({ panel, answers, range, marks, width, height }) {
  const theme = useTheme2();
  const frames = seriesFrames(panel, answers, range.step, theme);
  if (!frames.length) return <Empty {...{ panel, width, height }} />;
  const { legend } = panel.options;
  return (
    <TimeSeries {...{ frames, legend, width, height }} timeRange={range.grafana} timeZone="utc">
      {(config) => <Marks {...{ config, marks, theme }} />}
    </TimeSeries>
  );
}

function Rows({ panel, answers, range, width, height }) {
  const theme = useTheme2();
  const data = tableFrame(panel, answers, theme);
  if (!data.length) return <Empty {...{ panel, width, height }} />;
  return (
    <TableNG {...{ data, width, height }} cellHeight="sm" timeRange={range.grafana} enableVirtualization={false} />
  );
}

export const COMPONENTS = {
  heatmap: Heatmap,
  'state-timeline': StateTimeline,
  stat: Stat,
  table: Rows,
  timeseries: Lines,
};

export function grafanaRange({ from, to }) {
  const [start, end] = [dateTime(from * 1000), dateTime(to * 1000)];
  return { from: start, to: end, raw: { from: start, to: end } };
}
