// The tree of blocks: what can be folded. A leaf is a forward node with what belongs to it; a block
// is a run of leaves that follow each other, so that folding never makes a cycle.

const SMALLEST_BLOCK = 4, MOST_CHILDREN = 48, FIRST_VIEW = 40, END_NODES = 12;

function makeLeaves({nodes}) {
  const leaves = [];
  const leaf = node => {
    leaves.push({isLeaf: true, node, lanes: [[], [], []], title: node ? node.title : 'end of step'});
    return leaves[leaves.length - 1];
  };
  for (const node of nodes) if (node.mate === node) node.leaf = leaf(node);
  let end = null;
  for (const node of nodes) {
    if (!node.mate && (!end || end.lanes[2].length >= END_NODES)) end = leaf(null);
    node.leaf = node.mate ? node.mate.leaf : end;
    node.leaf.lanes[laneOf(node)].push(node);
  }
  for (const leaf of leaves) {
    // The backward pass runs upwards: its first node stands at the bottom of its cell.
    leaf.lanes[1].reverse();
    leaf.counts = leaf.lanes.map(lane => lane.length);
    leaf.flops = leaf.lanes.map(lane => sumOf(lane, node => node.flops));
    leaf.kept = keptBytes(leaf.lanes[0]);
  }
  return leaves;
}

// "/layer1/layer1.0/conv1/Conv" and "layer1.0.conv1.out" are in layer1, 0, conv1.
function pathOf({node}) {
  if (!node) return [];
  const text = node.source.name || (node.outputs[0] ? node.outputs[0].name : '');
  const path = [];
  let before = '';
  for (const part of text.replace(/@[^/@]*$/, '').split('/').filter(Boolean)) {
    const inner = before && part.startsWith(before + '.') ? part.slice(before.length + 1) : part;
    path.push(...inner.split('.').filter(Boolean));
    before = part;
  }
  return path.slice(0, -1);
}

const block = (title, children) => ({isLeaf: false, title: plain(title), children, open: false});

function blocksByName(leaves, paths = leaves.map(pathOf), depth = 0) {
  const found = [];
  for (let i = 0, end = 0; i < leaves.length; i = end) {
    const name = paths[i][depth];
    for (end = i + 1; name != null && end < leaves.length && paths[end][depth] === name;) ++end;
    if (name == null || end - i < SMALLEST_BLOCK) {
      found.push(...leaves.slice(i, end));
      continue;
    }
    const inner = blocksByName(leaves.slice(i, end), paths.slice(i, end), depth + 1);
    const only = inner.length === 1 && !inner[0].isLeaf;
    found.push(only ? inner[0] : block(paths[i].slice(0, depth + 1).join('.'), inner));
  }
  return found;
}

// Where a single value goes on, a block may end: a residual branch stays in one piece, a chain is
// cut in front of each node that does the work.
function blocksByStructure(leaves) {
  const position = new Map(leaves.map((leaf, i) => [leaf, i]));
  const change = new Int32Array(leaves.length + 1);  // of the number of values that go on
  leaves.forEach((leaf, i) => {
    for (const value of leaf.lanes[0].flatMap(node => node.outputs)) {
      const readers = value.readers.filter(reader => laneOf(reader) === 0);
      const last = readers.reduce((most, reader) => Math.max(most, position.get(reader.leaf)), i);
      if (last - i > leaves.length / 4) continue;  // a mask, say, that every layer reads
      ++change[i];
      --change[last];
    }
  });
  // Without counted operations: what reads constants.
  const counted = leaves.some(leaf => leaf.flops[0] > 0);
  const works = ({node, flops}) => counted ? flops[0] > 0
      : node && node.inputs.some(value => value.kind === 'constant');
  const runs = [];
  let run = [], alive = 0;
  leaves.forEach((leaf, i) => {
    run.push(leaf);
    alive += change[i];
    if (alive > 1 && i + 1 < leaves.length) return;
    if (run.length > 1 || works(leaf) || !runs.length) runs.push(run);
    else runs[runs.length - 1].push(...run);
    run = [];
  });
  return runs.length < 2 ? leaves : runs.flatMap(run => run.length < SMALLEST_BLOCK ? run
      : [block(operators(run.map(leaf => leaf.node)), run)]);
}

// "Conv ×2, Relu ×2, Add": the operators of a block, those that work first.
function operators(nodes) {
  const byOp = [...countOps(nodes)].filter(entry => entry.op !== 'Reorder');
  return byOp.slice(0, 4).map(({op, count}) => op + (count > 1 ? ' ×' + count : '')).join(', ') +
      (byOp.length > 4 ? ' …' : '');
}
function countOps(nodes) {
  const counts = new Map();
  for (const node of nodes.filter(Boolean)) {
    if (!counts.has(node.op)) counts.set(node.op, {op: node.op, count: 0, flops: 0});
    const entry = counts.get(node.op);
    ++entry.count;
    entry.flops += node.flops;
  }
  return [...counts.values()].sort((a, b) => b.flops - a.flops || b.count - a.count);
}

function blocksByRegion(leaves) {
  const found = [];
  for (const leaf of leaves) {
    const region = leaf.node ? leaf.node.region : -1, last = found[found.length - 1];
    if (region < 0) found.push(leaf);
    else if (last && last.region === region) last.children.push(leaf);
    else found.push({...block('region ' + region, [leaf]), region});
  }
  return found;
}

// Long lists are cut into pieces, and those again.
function inPieces(children) {
  for (const child of children) if (!child.isLeaf) child.children = inPieces(child.children);
  while (children.length > MOST_CHILDREN) {
    const size = Math.min(32, Math.ceil(Math.sqrt(children.length))), pieces = [];
    for (let i = 0; i < children.length; i += size) {
      const piece = children.slice(i, i + size);
      pieces.push(block(piece[0].title + ' … ' + piece[piece.length - 1].title, piece));
    }
    children = pieces;
  }
  return children;
}

const GROUPINGS = {
  names: leaves => blocksByName(leaves), structure: blocksByStructure, regions: blocksByRegion};

const leavesIn = item => item.isLeaf ? 1 : sumOf(item.children, leavesIn);

// Names, unless they say little: then most leaves stand in no block, or all in the same.
function bestGrouping(leaves) {
  const covered = item => item.isLeaf ? 0
      : leavesIn(item) > 0.75 * leaves.length ? sumOf(item.children, covered) : leavesIn(item);
  return sumOf(blocksByName(leaves), covered) > 0.5 * leaves.length ? 'names' : 'structure';
}

function makeTree(leaves, grouping) {
  const root = {...block('', inPieces(GROUPINGS[grouping](leaves))), open: true};
  let count = 0;
  summarise(root, () => count++);
  joinSiblings(leaves);
  // Blocks are opened level by level, as long as the picture stays one to look at.
  const inside = level => level.flatMap(item => item.children.filter(child => !child.isLeaf));
  let shown = root.children.length;
  for (let level = inside([root]); level.length; level = inside(level)) {
    shown += sumOf(level, item => item.children.length - 1);
    if (shown > FIRST_VIEW) break;
    for (const item of level) item.open = true;
  }
  return root;
}

// Numbers the items and adds up what is inside, for folded blocks.
function summarise(item, number, parent = null) {
  Object.assign(item, {parent, id: number(), depth: parent ? parent.depth + 1 : 0, next: new Map()});
  if (item.isLeaf) return;
  for (const child of item.children) summarise(child, number, item);
  const lanes = [0, 1, 2];
  item.counts = lanes.map(lane => sumOf(item.children, child => child.counts[lane]));
  item.flops = lanes.map(lane => sumOf(item.children, child => child.flops[lane]));
  item.kept = sumOf(item.children, child => child.kept);
}

// item.next: the siblings that read what is made inside, each with the pairs of leaves that are
// meant. They don't change when blocks fold.
function joinSiblings(leaves) {
  const join = (from, to) => {
    let a = from, b = to;
    while (a.depth > b.depth) a = a.parent;
    while (b.depth > a.depth) b = b.parent;
    while (a.parent !== b.parent) { a = a.parent; b = b.parent; }
    if (!a.next.has(b)) a.next.set(b, []);
    a.next.get(b).push([from, to]);
  };
  for (const leaf of leaves) {
    const readers = leaf.lanes[0].flatMap(node => node.outputs).flatMap(value => value.readers);
    for (const reader of new Set(readers.filter(node => laneOf(node) === 0).map(node => node.leaf))) {
      if (reader !== leaf) join(leaf, reader);
    }
  }
  for (let i = 1; i < leaves.length; ++i) if (!leaves[i].node) join(leaves[i - 1], leaves[i]);
}

// What stands in the picture for a leaf: itself, or the outermost folded block around it.
function shownItem(leaf) {
  let shown = leaf;
  for (let item = leaf.parent; item; item = item.parent) if (!item.open) shown = item;
  return shown;
}

const nodesOf = (item, lane) =>
    item.isLeaf ? item.lanes[lane] : item.children.flatMap(child => nodesOf(child, lane));
