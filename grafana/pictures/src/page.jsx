// The page that is photographed: variables, links, then the grid, in Grafana's dark theme.

import '@grafana/ui';

import { ThemeContext, createTheme } from '@grafana/data';
import { GlobalStyles, PanelChrome } from '@grafana/ui';
import { createRoot } from 'react-dom/client';

import { COMPONENTS, grafanaRange } from './panels.jsx';

const CELL_HEIGHT_PX = 30;
const GAP_PX = 8;
const COLUMNS = 24;
const HEADER_PX = 84;

const { dashboard, panels, marks, values, range, width } = window.PICTURE;
range.grafana = grafanaRange(range);
const theme = createTheme({ colors: { mode: 'dark' } });
const columnPx = (width - GAP_PX) / COLUMNS;

function box({ x, y, w, h }) {
  return {
    left: GAP_PX + x * columnPx,
    top: HEADER_PX + y * (CELL_HEIGHT_PX + GAP_PX),
    width: w * columnPx - GAP_PX,
    height: h * (CELL_HEIGHT_PX + GAP_PX) - GAP_PX,
  };
}

function Placed({ panel, answers }) {
  const { left, top, width, height } = box(panel.gridPos);
  const style = { position: 'absolute', left, top, width, height };
  if (panel.type === 'row') {
    return <div style={{ ...style, ...theme.typography.h6, paddingTop: 4 }}>⌄ {panel.title}</div>;
  }
  const Component = COMPONENTS[panel.type];
  return (
    <div style={style}>
      <PanelChrome {...{ width, height }} title={panel.title}>
        {(innerWidth, innerHeight) => (
          <Component {...{ panel, answers, range, marks }} width={innerWidth} height={innerHeight} />
        )}
      </PanelChrome>
    </div>
  );
}

function Field({ name, value }) {
  const colour = theme.colors.border.medium;
  return (
    <span style={{ border: `1px solid ${colour}`, borderRadius: 3, marginRight: 8, fontSize: 12 }}>
      <span style={{ padding: '4px 8px', background: theme.colors.background.secondary }}>{name}</span>
      <span style={{ padding: '4px 8px' }}>{value}</span>
    </span>
  );
}

function Header() {
  const chosen = dashboard.templating.list
    .filter(({ type }) => type === 'query')
    .map(({ name, label }) => <Field key={name} name={label} value={values[name] === '.*' ? 'All' : values[name]} />);
  const links = dashboard.links.map(({ title }) => (
    <span key={title} style={{ marginLeft: 16, color: theme.colors.text.link, fontSize: 12 }}>
      {title}
    </span>
  ));
  const times = [range.from, range.to].map((at) => new Date(at * 1000).toISOString().slice(11, 16));
  return (
    <div style={{ padding: '12px 8px 0', height: HEADER_PX }}>
      <div style={{ display: 'flex', justifyContent: 'space-between', marginBottom: 12 }}>
        <span style={{ ...theme.typography.h4, margin: 0 }}>{dashboard.title}</span>
        <span style={{ fontSize: 12 }}>{times.join(' to ')} UTC</span>
      </div>
      <div style={{ display: 'flex', justifyContent: 'space-between' }}>
        <span>
          <Field name="Data source" value="Prometheus" />
          {chosen}
        </span>
        <span>{links}</span>
      </div>
    </div>
  );
}

createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <Header />
    {panels.map(({ panel, answers }) => (
      <Placed key={`${panel.id}-${panel.title}`} {...{ panel, answers }} />
    ))}
  </ThemeContext.Provider>,
);
