// Puts the page together: header, search, panel, and the state that all share (what is selected,
// which time is looked at). The address can say where to begin: #node=12&open=all, #time=40, #places,
// #tab=memory, #search=conv.

const started = performance.now();
const byId = id => document.getElementById(id);
const model = readModel(JSON.parse(byId('document').textContent));
const leaves = makeLeaves(model);
const panel = new Panel(model, {select, toggle});
const graphView = new GraphView(byId('graph'), model, {select});
const memoryView = model.training
    ? new MemoryView(byId('memory'), model, {select, time: () => show('memory')}) : null;
let tab = 'step', selected = null, hits = [], hit = -1;

function select(next, from) {
  selected = next;
  graphView.select(next);
  if (memoryView) {
    memoryView.selected = next && next.node;
    memoryView.redraw();
  }
  if (from !== 'memory') show(next ? 'node' : tab === 'node' ? 'step' : tab);
  byId('said').textContent = !next ? '' : next.block ? `block ${next.block.title}`
      : `${next.node.op} ${next.node.title}, number ${next.node.index}, ${next.node.phase}`;
}
function toggle(item) {
  graphView.toggle(item);
  show(tab);
}

function show(name) {
  tab = name;
  for (const button of byId('tabs').children) {
    button.setAttribute('aria-selected', button.dataset.tab === tab);
    button.tabIndex = button.dataset.tab === tab ? 0 : -1;
  }
  const content = tab === 'memory' ? panel.memory(memoryView.time)
      : tab === 'buckets' ? panel.buckets()
      : tab === 'step' ? panel.step()
      : !selected ? [el('p', {className: 'quiet'}, 'Select a node or a block.')]
      : selected.block ? panel.block(selected.block) : panel.node(selected.node);
  byId('panel').replaceChildren(...content);
  byId('panel').scrollTop = 0;
}

function makeHeader() {
  const {doc, nodes} = model, {plan} = doc, name = plain(doc.file.path.split('/').pop());
  document.title = name + (model.training ? ' training' : '');
  byId('name').textContent = name;
  const parameters = doc.graph.states.filter(state => state.role === 'parameter');
  const elements = type => type.shape.reduce((product, size) => product * size, 1);
  const flops = lane =>
      formatFlops(sumOf(nodes.filter(node => laneOf(node) === lane), node => node.flops));
  const rows = !model.training
      ? [['nodes', nodes.length],
         ['constants', formatBytes(sumOf(doc.graph.constants, entry => entry.bytes))]]
      : [['parameters', formatCount(sumOf(parameters, elements))], ['batch', plan.batch],
         ['threads', plan.threads], ['steps', doc.summary.steps], ['forward', flops(0)],
         ['backward', flops(1)],
         ['planned memory', formatBytes(plan.memory.state_bytes + plan.memory.arena_bytes)],
         ['buckets', plan.buckets.length]];
  byId('facts').append(...rows.filter(row => row[1]).map(
      ([term, value]) => el('div', {}, el('dt', {}, term), el('dd', {}, String(value)))));
}

function makeTabs() {
  const label = {step: model.training ? 'Step' : 'File', node: 'Node',
                 ...memoryView && {memory: 'Memory'},
                 ...memoryView && model.doc.plan.buckets.length && {buckets: 'Buckets'}};
  const names = Object.keys(label), tabs = byId('tabs');
  tabs.append(...names.map(name => el(
      'button', {role: 'tab', 'data-tab': name, onclick: () => show(name)}, label[name])));
  tabs.addEventListener('keydown', event => {
    const to = names.indexOf(tab) + {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!names[to]) return;
    show(names[to]);
    tabs.children[to].focus();
  });
}

function makeBlocks() {
  const chosen = bestGrouping(leaves), select = byId('blocks');
  const names = Object.keys(GROUPINGS).filter(
      name => name !== 'regions' || model.nodes.some(node => node.region >= 0));
  select.append(...names.map(name => el('option', {value: name, selected: name === chosen}, name)));
  const group = name => {
    selected = graphView.selected = null;
    graphView.setTree(makeTree(leaves, name));
  };
  select.onchange = () => group(select.value);
  group(chosen);
}

function makeSearch() {
  const input = byId('search');
  const say = () => {
    byId('hits').textContent = !input.value.trim() ? ''
        : hit < 0 ? `${hits.length} found` : `${hit + 1} of ${hits.length}`;
  };
  input.addEventListener('input', () => {
    // By operator, name, what comes out, and parameters and inputs that go in.
    const text = input.value.trim().toLowerCase();
    const has = name => name.toLowerCase().includes(text);
    hits = !text ? [] : model.nodes.filter(({op, title, inputs, outputs}) => has(op) || has(title) ||
        [...outputs, ...inputs.filter(value => !value.maker)].some(value => has(value.name)));
    hit = -1;
    graphView.hits = new Set(hits);
    graphView.redraw();
    say();
  });
  input.addEventListener('keydown', event => {
    const move = {Enter: event.shiftKey ? -1 : 1, ArrowDown: 1, ArrowUp: -1}[event.key];
    if (event.key === 'Escape') {
      input.value = '';
      input.dispatchEvent(new Event('input'));
      byId('graph').focus();
    } else if (move && hits.length) {
      event.preventDefault();
      hit = hit < 0 && move < 0 ? hits.length - 1 : (hit + move + hits.length) % hits.length;
      select({node: hits[hit]});
      say();
    }
  });
  document.addEventListener('keydown', event => {
    if (event.key !== '/' || event.target === input) return;
    event.preventDefault();
    input.focus();
  });
}

function makeButtons() {
  const actions = {
    zoom_in: () => graphView.zoom(1.25), zoom_out: () => graphView.zoom(0.8),
    fit: () => graphView.fit(), fold: () => graphView.setAll(false),
    unfold: () => graphView.setAll(true), peak: () => memoryView.goTo(model.peak),
    places: () => {
      memoryView.places = !memoryView.places;
      byId('places').setAttribute('aria-pressed', memoryView.places);
      memoryView.redraw();
    }};
  for (const [id, action] of Object.entries(actions)) byId(id).onclick = action;
  byId('legend').append(...KINDS.map((name, kind) => el('span', {}, swatch(kind), name)));
}

function redrawAll() {
  graphView.redraw();
  if (memoryView) memoryView.redraw();
}

function beginAt(address) {
  const node = model.nodes[address.get('node')];
  if (address.has('open')) graphView.setAll(address.get('open') === 'all');
  if (address.has('search')) {
    byId('search').value = address.get('search');
    byId('search').dispatchEvent(new Event('input'));
  }
  if (node) select({node});
  if (memoryView && address.has('places')) byId('places').click();
  if (memoryView && model.nodes[address.get('time')]) memoryView.goTo(+address.get('time'));
  const tabs = [...byId('tabs').children].map(button => button.dataset.tab);
  if (tabs.includes(address.get('tab'))) show(address.get('tab'));
}

document.body.classList.toggle('training', model.training);
makeHeader();
makeTabs();
makeSearch();
makeButtons();
makeBlocks();
show('step');
beginAt(new URLSearchParams(location.hash.slice(1)));
new ResizeObserver(redrawAll).observe(byId('graph'));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);
// For tests: that the page has come up, after how long, and how much it shows.
Object.assign(document.documentElement.dataset, {
  ready: (performance.now() - started).toFixed(1), nodes: model.nodes.length,
  shown: graphView.view.items.length});
