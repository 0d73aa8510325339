// The inspect document as the page needs it: nodes and values that point at each other, what
// belongs together (a forward node, its gradients, its updates), bytes and operations.
// Positions are those of graph.nodes, the order of execution.

// Control characters, invisible ones and those that turn the direction of writing, spelled out:
// what a file calls its tensors must not change how the page reads.
function plain(text) {
  return String(text).replace(
      /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]/g,
      c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

function formatBytes(bytes) {
  if (bytes == null) return '?';
  const power = bytes < 1024 ? 0 : bytes < 1 << 20 ? 1 : bytes < 1 << 30 ? 2 : 3;
  const number = bytes / 1024 ** power;
  return number.toFixed(power && number < 99.95 ? 1 : 0) + [' B', ' KiB', ' MiB', ' GiB'][power];
}

function formatCount(count, unit = '') {
  const power = count < 999.5 ? 0 : Math.min(5, Math.floor(Math.log10(count * 1.0005) / 3));
  const number = power ? (count / 1000 ** power).toPrecision(3) : String(Math.round(count));
  return number + (unit || power ? ' ' : '') + ['', 'K', 'M', 'G', 'T', 'P'][power] + unit;
}

const formatFlops = flops => flops > 0 ? formatCount(flops, 'FLOP') : '';
const formatShape = type =>
    (type && type.shape || []).map(dim => dim == null ? '?' : plain(dim)).join('×');
const formatType = ({dtype, shape, layout}) => dtype === 'undefined' ? 'type not in the file'
    : `${dtype} ${shape ? formatShape({shape}) || 'scalar' : '…'} ${plain(layout || '')}`.trim();

const plural = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;

const sumOf = (list, number) => list.reduce((sum, item) => sum + number(item), 0);

function readModel(doc) {
  const values = new Map(), training = !!doc.plan;
  const add = (entry, kind, maker = null) => {
    const value = {...entry, kind, maker, type: entry, readers: [], span: null};
    values.set(entry.name, value);
    return value;
  };
  for (const kind of ['input', 'constant', 'state']) {
    for (const entry of doc.graph[kind + 's']) add(entry, kind);
  }
  const nodes = doc.graph.nodes.map((source, index) => {
    const node = {index, source, op: plain(source.op), phase: source.phase || 'forward', step: null,
                  region: -1, flops: 0, mate: null, leaf: null};
    node.outputs = source.outputs
        .map((name, i) => name == null ? null : add({...source.types[i], name}, 'result', node))
        .filter(Boolean);
    node.title = plain(source.name || (node.outputs[0] ? node.outputs[0].name : source.op));
    return node;
  });
  for (const node of nodes) {
    node.inputs = node.source.inputs.map(name => values.get(name)).filter(Boolean);
    for (const value of node.inputs) value.readers.push(node);
  }
  const model = {doc, training, values, nodes};
  if (training) {
    readSteps(model);
    readArena(model);
  }
  findMates(model);
  return model;
}

function readSteps({doc: {plan}, nodes}) {
  plan.regions.forEach((region, r) => {
    const blocked = region.blocks > 1 || region.local_bytes_per_thread > 0;
    for (const step of region.steps) {
      const node = nodes[step.index];
      node.step = step;
      node.region = blocked ? r : -1;
      node.flops = step.flops * (blocked ? plan.batch / region.block_rows : 1);
    }
  });
}

const KINDS = ['forward values', 'gradients', 'gradients of parameters', 'workspace and other'];

function kindOf(main, values) {
  const maker = main && main.maker;
  if (!maker || maker.phase === 'update') return 3;
  if (maker.phase === 'forward' || maker.phase === 'again') return 0;
  const atEnd = value => value.readers.every(reader => laneOf(reader) === 2);
  return maker.phase === 'sum' || values.every(atEnd) ? 2 : 1;
}

function readArena(model) {
  const {doc: {plan}, nodes} = model, count = nodes.length;
  model.alive = KINDS.map(() => new Float64Array(count + 1));  // bytes at each position
  model.spans = plan.arena.map(entry => {
    const values = (entry.values || []).map(name => model.values.get(name));
    // A bucket rather than one of its members.
    const main = values.find(value => value.maker.phase === 'sum') || values[0];
    const span = {...entry, values, main, last: Math.min(entry.last, count - 1),
                  toEnd: entry.last >= count, kind: kindOf(main, values)};
    span.node = main ? main.maker
        : nodes[entry.workspace_of ?? plan.regions[entry.region].steps[0].index];
    for (const value of values) value.span = span;
    model.alive[span.kind][span.first] += span.bytes;
    model.alive[span.kind][span.last + 1] -= span.bytes;
    return span;
  });
  for (const curve of model.alive) for (let i = 1; i <= count; ++i) curve[i] += curve[i - 1];
  model.peak = 0;
  nodes.forEach((_, i) => { if (aliveAt(model, i) > aliveAt(model, model.peak)) model.peak = i; });
}

const aliveAt = (model, time) => sumOf(model.alive, curve => curve[time]);

// Where a node is drawn: forward, backward, or what becomes of the gradients.
const laneOf = ({phase}) => phase === 'forward' ? 0 : phase === 'sum' || phase === 'update' ? 2 : 1;

// The forward node beside which each other node stands.
function findMates({nodes, values}) {
  const labels = new Map();
  for (const node of nodes) {
    if (laneOf(node) !== 0) continue;
    const {domain, name} = node.source, op = (domain ? domain + '.' : '') + node.op;
    const label = name ? `${name} (${op})` : `${op} -> ${(node.outputs[0] || {}).name}`;
    if (!labels.has(label)) labels.set(label, node);
  }
  const makersOf = node => node.inputs.map(value => value.maker).filter(Boolean);
  const byState = node => node.inputs.filter(value => value.kind === 'state').flatMap(
      value => value.readers.filter(reader => laneOf(reader) === 0))[0];
  const original = node => {
    const value = node.phase === 'again' && node.outputs[0] &&
        values.get(node.outputs[0].name.replace(/\/again(\.\d+)?$/, ''));
    return value && value.maker && value.maker.mate;
  };
  for (const node of nodes) {
    const makers = makersOf(node).filter(maker => maker.mate);
    if (node.phase === 'forward') {
      // A change of layout stands with what it changes.
      node.mate = node.op === 'Reorder' && makers[0] ? makers[0].mate : node;
    } else if (node.phase === 'sum') {
      // A bucket stands where it is completed.
      node.mate = makers.reduce((a, b) => !a || b.index > a.index ? b : a, null)?.mate;
    } else if (node.phase === 'update') {
      // What reads all gradients belongs to none.
      node.mate = byState(node) || (makersOf(node).length === 1 && makers[0] ? makers[0].mate : null);
    } else {
      node.mate = labels.get(node.source.gradient_of)?.mate || original(node) || makers[0]?.mate;
    }
  }
  for (const node of nodes) {  // a member of a bucket, to who takes it
    if (node.op !== 'BucketMember') continue;
    node.mate = node.outputs.flatMap(value => value.readers).map(byState).find(Boolean);
  }
}

const isForward = value => value.maker && value.maker.phase === 'forward';

// Forward values that a node of the backward pass reads, and so keeps until then.
const keptBy = node => laneOf(node) === 0 ? [] : [...new Set(node.inputs)].filter(isForward);

const keepersOf = value =>
    isForward(value) ? value.readers.filter(reader => laneOf(reader) !== 0) : [];

// Bytes of what these forward nodes give that the backward pass still reads.
function keptBytes(nodes) {
  const kept = nodes.flatMap(node => node.outputs).filter(
      value => keepersOf(value).some(reader => laneOf(reader) === 1));
  return sumOf([...new Set(kept.map(value => value.span))], span => span ? span.bytes : 0);
}
