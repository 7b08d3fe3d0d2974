// Draws dashboards as PNG files with Grafana's own panel components over a live Prometheus.

import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs, promisify } from 'node:util';

import { build } from 'esbuild';

import {
  Prometheus,
  chooseVariables,
  expandRepeats,
  queryAnnotations,
  queryPanel,
} from './src/prometheus.mjs';

const HELP = `usage: node draw.mjs [options] DASHBOARD.json=PICTURE.png ...

  --prometheus URL   the server to ask (default http://127.0.0.1:9090)
  --minutes N        length of the time range (default 30)
  --end SECONDS      its end as Unix time (default: now)
  --scrape SECONDS   its scrape interval (default 15)
  --width PIXELS     of the picture (default 1500)
  --height PIXELS    cut the picture off here (default: whole dashboard)
  --chromium PATH    the browser (default chromium)
  --var NAME=VALUE   value of a dashboard variable; may be repeated

example: node draw.mjs --minutes 20 ../dashboards/triton-overview.json=../../docs/pictures/overview.png`;

const POINTS = 240;
const HERE = dirname(fileURLToPath(import.meta.url));
const BROWSER_FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--hide-scrollbars',
  '--force-color-profile=srgb',
];

async function bundle(folder) {
  await build({
    bundle: true,
    define: { 'process.env.NODE_ENV': '"production"' },
    entryPoints: [join(HERE, 'src/page.jsx')],
    jsx: 'automatic',
    loader: { '.svg': 'dataurl', '.ttf': 'dataurl', '.woff': 'dataurl', '.woff2': 'dataurl' },
    logLevel: 'error',
    minify: true,
    outfile: join(folder, 'page.js'),
  });
}

async function collect(dashboard, prometheus, range, given) {
  const { values, choices } = await chooseVariables(dashboard, prometheus, range, given);
  const expanded = expandRepeats(dashboard.panels, choices);
  const panels = [];
  for (const each of expanded) {
    const answers = await queryPanel(each, prometheus, range, values);
    panels.push({ panel: each.panel, answers });
  }
  const marks = await queryAnnotations(dashboard, prometheus, range, values);
  return { dashboard, panels, marks, values, range };
}

function heightOf(panels) {
  const rows = Math.max(...panels.map(({ panel }) => panel.gridPos.y + panel.gridPos.h));
  return 84 + rows * 38 + 8;
}

async function photograph(picture, folder, target, { chromium, height }) {
  const page = join(folder, 'page.html');
  const data = JSON.stringify(picture).replaceAll('<', '\\u003c');
  await writeFile(
    page,
    `<!doctype html><meta charset="utf-8"><body style="margin:0"><div id="root"></div>
    <link rel="stylesheet" href="page.css"><script>window.PICTURE=${data}</script>
    <script src="page.js"></script>`,
  );
  const profile = join(folder, 'profile');
  await promisify(execFile)(chromium, [
    ...BROWSER_FLAGS,
    `--user-data-dir=${profile}`,
    `--window-size=${picture.width},${height}`,
    '--virtual-time-budget=8000',
    `--screenshot=${target}`,
    pathToFileURL(page).href,
  ]);
  await rm(profile, { recursive: true, force: true });
}

async function main() {
  const { values: options, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      chromium: { type: 'string', default: 'chromium' },
      end: { type: 'string' },
      height: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
      minutes: { type: 'string', default: '30' },
      prometheus: { type: 'string', default: 'http://127.0.0.1:9090' },
      scrape: { type: 'string', default: '15' },
      var: { type: 'string', multiple: true, default: [] },
      width: { type: 'string', default: '1500' },
    },
  });
  if (options.help || positionals.length === 0) {
    console.log(HELP);
    return options.help ? 0 : 2;
  }
  const scrapeInterval = Number(options.scrape);
  const to = Number(options.end ?? Math.floor(Date.now() / 1000));
  const from = to - Number(options.minutes) * 60;
  const step = Math.max(Math.ceil((to - from) / POINTS), scrapeInterval);
  const range = { from, to, step, scrapeInterval };
  const given = Object.fromEntries(options.var.map((pair) => pair.split('=')));
  const prometheus = new Prometheus(options.prometheus);
  const folder = await mkdtemp(join(tmpdir(), 'dashboard-pictures-'));
  try {
    await bundle(folder);
    for (const pair of positionals) {
      const [source, target] = pair.split('=');
      const dashboard = JSON.parse(await readFile(source, 'utf8'));
      const picture = await collect(dashboard, prometheus, range, given);
      picture.width = Number(options.width);
      await mkdir(dirname(target), { recursive: true });
      const height = Number(options.height ?? heightOf(picture.panels));
      await photograph(picture, folder, target, { chromium: options.chromium, height });
      console.log(`${basename(source)} -> ${target}`);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return 0;
}

main().then(
  (status) => process.exit(status),
  (error) => {
    console.error(`error: ${error.message}`);
    process.exit(2);
  },
);
