// Asks Prometheus what a dashboard asks, with the variables filled in as Grafana does.

const MINIMUM_RATE_SCRAPES = 4;

export class Prometheus {
  constructor(url) {
    this.url = url.replace(/\/$/, '');
  }

  async get(path, parameters) {
    const address = `${this.url}/api/v1/${path}?${new URLSearchParams(parameters)}`;
    const reply = await fetch(address).catch((error) => {
      throw new Error(`Prometheus at ${this.url} does not answer: ${error.cause?.code ?? error}`);
    });
    const body = await reply.json();
    if (body.status !== 'success') throw new Error(`${body.error}\n  in ${parameters.query}`);
    return body.data;
  }

  instant(query, time) {
    return this.get('query', { query, time }).then((data) => data.result);
  }

  range(query, { from, to, step }) {
    return this.get('query_range', { query, start: from, end: to, step }).then((d) => d.result);
  }
}

function fill(text, values) {
  return text.replace(/\$\{?([A-Za-z_]\w*)\}?/g, (whole, name) => values[name] ?? whole);
}

/** Values for every variable: the given ones, else everything (multiple) or the first. */
export async function chooseVariables(dashboard, prometheus, range, given) {
  const values = { ...given };
  const choices = {};
  for (const variable of dashboard.templating.list) {
    if (variable.type !== 'query') continue;
    const [, selector, label] = /^label_values\((.+), (\w+)\)$/.exec(variable.query.query);
    const data = await prometheus.get(`label/${label}/values`, {
      'match[]': fill(selector, values),
      start: range.from,
      end: range.to,
    });
    const DESCENDING = 2;
    choices[variable.name] = variable.sort === DESCENDING ? data.toReversed() : data;
    values[variable.name] ??= variable.multi ? '.*' : (data[0] ?? '');
  }
  return { values, choices };
}

/** Copies of a repeated panel side by side, one per value of its variable. */
export function expandRepeats(panels, choices) {
  return panels.flatMap((panel) => {
    if (!panel.repeat) return [{ panel, own: {} }];
    return choices[panel.repeat].slice(0, panel.maxPerRow).map((value, index) => {
      const own = { [panel.repeat]: value };
      const gridPos = { ...panel.gridPos, x: index * panel.gridPos.w };
      return { panel: { ...panel, gridPos, title: fill(panel.title, own) }, own };
    });
  });
}

function rateInterval(step, scrapeInterval) {
  return Math.max(step + scrapeInterval, MINIMUM_RATE_SCRAPES * scrapeInterval);
}

export async function queryPanel({ panel, own }, prometheus, range, values) {
  const expand = (expr) =>
    fill(expr, {
      ...values,
      ...own,
      __rate_interval: `${rateInterval(range.step, range.scrapeInterval)}s`,
      __range: `${range.to - range.from}s`,
    });
  return Promise.all(
    (panel.targets ?? []).map(async (target) => {
      const query = expand(target.expr);
      const result = target.instant
        ? await prometheus.instant(query, range.to)
        : await prometheus.range(query, range);
      return { target, result };
    }),
  );
}

/** Time spans (seconds) in which an annotation has a value; neighbours one step apart join. */
export async function queryAnnotations(dashboard, prometheus, range, values) {
  const marks = [];
  for (const annotation of dashboard.annotations.list) {
    const query = fill(annotation.target.expr, values);
    const step = Number.parseInt(annotation.target.interval, 10);
    for (const series of await prometheus.range(query, { ...range, step })) {
      let span = null;
      for (const [time] of series.values) {
        if (span && time - span.to <= step) span.to = time;
        else {
          span = { color: annotation.iconColor, from: time, to: time };
          marks.push(span);
        }
      }
    }
  }
  return marks;
}
