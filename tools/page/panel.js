// The panel beside the graph: the step as a whole, the selected node or block, what is alive at a
// time, buckets. Everything a file says comes in as text, never as markup.

const MOST_ROWS = 200;

function el(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name in element) element[name] = value; else element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child != null));
  return element;
}

const facts = rows => el('dl', {}, ...rows.filter(row => row && row[1])
    .flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
// Heads that begin with '#' are those of numbers.
const table = (heads, rows) => {
  const line = (tag, cells) => el('tr', {}, ...cells.map((cell, i) =>
      el(tag, {className: heads[i][0] === '#' ? 'number' : ''}, cell)));
  return el('table', {}, el('thead', {}, line('th', heads.map(head => head.replace('#', '')))),
            el('tbody', {}, ...rows.map(row => line('td', row))));
};
const section = (title, ...content) => [el('h2', {}, title), ...content];
const list = (...items) => el('ul', {}, ...items.map(item => el('li', {}, item)));
const swatch = kind =>
    el('span', {className: 'swatch', style: `background: var(${KIND_COLOURS[kind]})`});
const joined = parts => parts.filter(Boolean).join(' · ');
const sizeOf = value => formatBytes(value.span ? value.span.bytes : value.bytes);

function attributeText(value) {
  if (Array.isArray(value)) return '[' + value.map(attributeText).join(', ') + ']';
  if (typeof value !== 'object' || value === null) return plain(value);
  if (!value.dtype) return plain(JSON.stringify(value));
  return formatType(value) + (value.values ? ' = ' + attributeText(value.values) : '');
}

class Panel {
  constructor(model, hooks) {
    Object.assign(this, {model, hooks});
  }

  link(node, text = node.title) {
    const onclick = () => this.hooks.select({node});
    return el('button', {className: 'link', title: node.title, onclick}, text);
  }
  valueLink({maker, name}) { return maker ? this.link(maker, plain(name)) : plain(name); }
  // `#12 Conv name`
  reference(node) {
    return el('span', {}, el('span', {className: 'quiet'}, '#' + node.index), ` ${node.op} `,
              this.link(node));
  }

  step() {
    const {doc, nodes, training, peak} = this.model, {file, plan} = doc;
    const opsets = Object.entries(file.opsets).map(([name, version]) => `${plain(name)} ${version}`);
    const blocked = training ? plan.regions.filter(region => region.blocks > 1).length : 0;
    const memory = training && plan.memory, all = sumOf(nodes, node => node.flops) || 1;
    const remarks = [...(training ? plan.remarks : []), ...(doc.notices || [])];
    return [
      ...section('File', facts([
        ['path', plain(file.path)], ['size', formatBytes(file.bytes)],
        ['made by', plain(`${file.producer} ${file.producer_version}`.trim())],
        ['operators', opsets.join(', ')]])),
      ...!training ? [] : section('Plan', facts([
        ['batch', `${plural(plan.batch, 'row')}, ${plural(plan.threads, 'thread')}`],
        ['regions', plan.regions.length + (blocked ? `, ${blocked} block by block` : '')],
        ['states', formatBytes(memory.state_bytes)], ['arena', formatBytes(memory.arena_bytes)],
        ['at once', formatBytes(memory.liveness_bound_bytes)],
        ['without reuse', formatBytes(memory.without_reuse_bytes)],
        ['peak', this.reference(nodes[peak])]])),
      ...!remarks.length ? [] : section('Notices', list(...remarks.map(plain))),
      ...section('Operators', table(
          ['operator', '#nodes', ...training ? ['#FLOP', '#share'] : []],
          countOps(nodes).map(({op, count, flops}) => [op, count, ...!training ? [] : !flops ? ['', '']
              : [formatCount(flops), (100 * flops / all).toFixed(1) + ' %']]))),
    ];
  }

  node(node) {
    const {doc, nodes, training} = this.model, {source, step, leaf} = node, {origin} = source;
    const region = node.region >= 0 && doc.plan.regions[node.region];
    const others = leaf.node ? leaf.lanes.map(lane => lane.filter(other => other !== node)) : [];
    const kept = keptBy(node), attributes = Object.entries(source.attributes);
    const which = value => node.outputs.length > 1 &&
        el('div', {className: 'quiet'}, 'reads ' + plain(value.name));
    const keepers = node.outputs.flatMap(value => keepersOf(value).map(
        reader => [sizeOf(value), el('div', {}, this.reference(reader), which(value) || '')]));
    const lanes = ['forward', 'backward', 'update'];
    return [
      el('h1', {}, source.domain && el('span', {className: 'quiet'}, plain(source.domain) + '.'),
         node.op),
      el('p', {className: 'quiet'}, node.title),
      facts([
        ['position', `#${node.index} of ${nodes.length}` + (training ? `, ${node.phase}` : '')],
        ['in the file', origin && plain([origin.calls, origin.node != null && 'node ' + origin.node,
                                         origin.name].filter(Boolean).join(', '))],
        ['kernel', step && plain(step.kernel)],
        ['runs', region && `${plural(region.blocks, 'block')} of ${plural(region.block_rows, 'row')}` +
            ` (region ${node.region})`],
        ['FLOP', node.flops && formatCount(node.flops)],
        ['workspace', step && step.workspace_bytes && formatBytes(step.workspace_bytes)],
        ['alive then', step && formatBytes(step.alive_bytes)]]),
      ...!others.flat().length ? [] : section('Belongs together', facts([
        ...lanes.map((name, lane) => ['FLOP ' + name, formatFlops(leaf.flops[lane])]),
        ...others.flatMap((lane, i) => lane.map(other => [lanes[i], this.reference(other)]))])),
      ...!kept.length ? [] : section('Keeps alive', table(
          ['forward value', '#bytes', '#since'],
          kept.map(value => [this.valueLink(value), sizeOf(value), '#' + value.maker.index]))),
      ...!keepers.length ? [] : section('Kept alive by', facts(keepers)),
      ...section('Inputs', this.values(node.inputs)),
      ...section('Outputs', this.values(node.outputs)),
      ...!attributes.length ? [] : section('Attributes', facts(attributes.map(
          ([name, value]) => [plain(name), attributeText(value)]))),
    ];
  }
  values(values) {
    return el('div', {}, ...values.map(value => el('div', {}, this.valueLink(value),
        el('div', {className: 'quiet'}, joined([
          formatType(value.type), value.bytes != null && formatBytes(value.bytes),
          value.kind !== 'result' && (value.role || value.kind),
          value.span && `#${value.span.first}–#${value.span.last}`])))));
  }

  block(item) {
    const names = this.model.training ? ['forward', 'backward', 'update'] : ['forward'];
    return [
      el('h1', {}, item.title), el('p', {className: 'quiet'}, operators(nodesOf(item, 0))),
      facts([...names.map((name, lane) =>
               [name, joined([plural(item.counts[lane], 'node'), formatFlops(item.flops[lane])])]),
             ['kept', item.kept && formatBytes(item.kept)]]),
      el('button', {onclick: () => this.hooks.toggle(item)}, item.open ? 'Fold' : 'Unfold')];
  }

  // What is alive at a time, the largest first.
  memory(time) {
    const {model} = this;
    const alive = model.spans.filter(span => span.first <= time && time <= span.last)
        .sort((a, b) => b.bytes - a.bytes || a.first - b.first);
    const rest = alive.slice(MOST_ROWS);
    return [
      el('p', {}, time === model.peak ? 'Peak, at ' : 'Alive at ', this.reference(model.nodes[time])),
      facts([...KINDS.map((name, kind) => [el('span', {}, swatch(kind), name),
                                           formatBytes(model.alive[kind][time])]),
             ['in all', `${formatBytes(aliveAt(model, time))} in ${plural(alive.length, 'place')}`]]),
      table(['value', '#bytes', '#from', '#to'], alive.slice(0, MOST_ROWS).map(span => [
        el('span', {}, swatch(span.kind), this.link(span.node, spanTitle(span))),
        formatBytes(span.bytes), '#' + span.first, span.toEnd ? 'end' : '#' + span.last])),
      el('p', {}, rest.length ? `and ${rest.length} smaller ones, ` +
         formatBytes(sumOf(rest, span => span.bytes)) : '')];
  }

  buckets() {
    const {nodes, values, doc} = this.model;
    const backward = nodes.filter(node => laneOf(node) === 1);
    const share = (at, weight) => {
      const done = sumOf(backward.filter(node => node.index <= at), weight);
      return (100 * done / (sumOf(backward, weight) || 1)).toFixed(0) + ' %';
    };
    return [
      el('p', {}, 'The sum of a bucket over the replicas starts when its last member is there. ' +
         'Shares are those of the backward pass until then.'),
      table(['bucket', '#bytes', '#ready', '#nodes', '#FLOP'], doc.plan.buckets.map(
          ({name, bytes, ready_index: at}) => [
            plain(name), formatBytes(bytes), at == null ? 'at once' : this.link(nodes[at], '#' + at),
            share(at ?? -1, () => 1), share(at ?? -1, node => node.flops)])),
      ...doc.plan.buckets.flatMap(({name, members}) => section(
          `${plain(name)}: ${plural(members.length, 'member')}`,
          el('div', {}, ...members.map(member => el('div', {}, this.valueLink(values.get(member)))))))];
  }
}
