// Prometheus' answers as Grafana data frames, with the field settings of the dashboard applied.
// In Grafana a registry applies them; outside of it they have to be put on each field.

import { FieldType, fieldReducers, getDisplayProcessor, getFieldDisplayName } from '@grafana/data';

const MS = 1000;

function legendOf(template, labels) {
  if (template === '__auto') return Object.values(labels).join(', ') || 'value';
  return template.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => labels[name] ?? '');
}

function setByPath(target, path, value) {
  const keys = path.split('.');
  const last = keys.pop();
  const owner = keys.reduce((node, key) => (node[key] ??= {}), target);
  owner[last] = value;
}

function matches({ id, options }, name) {
  return id === 'byRegexp' ? new RegExp(options.slice(1, -1)).test(name) : options === name;
}

export function fieldConfig(panel, name) {
  const config = structuredClone(panel.fieldConfig.defaults);
  for (const { matcher, properties } of panel.fieldConfig.overrides) {
    if (!matches(matcher, name)) continue;
    for (const { id, value } of properties) setByPath(config, id, value);
  }
  // JSON has no -Infinity, so a file writes null for the first step.
  for (const step of config.thresholds.steps) step.value ??= -Infinity;
  return config;
}

function finish(field, theme) {
  field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
  return field;
}

/** One frame per series. */
export function seriesFrames(panel, answers, step, theme) {
  const frames = answers.flatMap(({ target, result }) =>
    result.map((series) => {
      const name = legendOf(target.legendFormat, series.metric);
      const samples = series.values ?? [series.value];
      const time = finish(
        {
          name: 'Time',
          type: FieldType.time,
          config: { interval: step * MS },
          values: samples.map(([at]) => at * MS),
        },
        theme,
      );
      const value = {
        name: 'Value',
        type: FieldType.number,
        labels: series.metric,
        config: { ...fieldConfig(panel, name), displayNameFromDS: name },
        values: samples.map(([, number]) => (number === 'NaN' ? null : Number(number))),
      };
      return { refId: target.refId, length: samples.length, fields: [time, value] };
    }),
  );
  frames.forEach((frame, index) => {
    frame.fields[1].state = { seriesIndex: index };
    finish(frame.fields[1], theme);
  });
  return frames;
}

export function lastValue(field) {
  return fieldReducers.get('lastNotNull').reduce(field, true, true).lastNotNull;
}

export function nameOf(frame) {
  return getFieldDisplayName(frame.fields[1], frame);
}

/** The rows of a table: label sets, renamed and ordered as the panel's transformations say. */
export function tableFrame(panel, answers, theme) {
  const [{ result }] = answers;
  const organize = panel.transformations.find(({ id }) => id === 'organize').options;
  const keys = Object.keys(organize.renameByName);
  keys.sort((a, b) => organize.indexByName[a] - organize.indexByName[b]);
  const fields = keys.map((key) => [key, organize.renameByName[key]]).map(([key, heading]) =>
    finish(
      {
        name: heading,
        type: key === 'Value' ? FieldType.number : FieldType.string,
        config: fieldConfig(panel, heading),
        values: result.map(({ metric, value }) =>
          key === 'Value' ? Number(value[1]) : (metric[key] ?? ''),
        ),
        state: {},
      },
      theme,
    ),
  );
  return { length: result.length, fields };
}

/** Bucket bounds ascending, and per bucket its own count (Prometheus' are cumulative). */
export function heatmapCells(answers) {
  const series = answers
    .flatMap(({ result }) => result)
    .map(({ metric, values }) => ({ bound: Number(metric.le.replace('+Inf', 'Infinity')), values }))
    .sort((a, b) => a.bound - b.bound);
  const cells = [];
  const below = new Map();
  series.forEach(({ values }, row) => {
    for (const [time, text] of values) {
      const count = Number(text) - (below.get(time) ?? 0);
      below.set(time, Number(text));
      if (count > 1e-9) cells.push({ time: time * MS, row, count });
    }
  });
  return { bounds: series.map(({ bound }) => bound), cells };
}
