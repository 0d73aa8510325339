// Places for the items of the tree. Each open block is laid out by itself: layers by longest path,
// barycenter sweeps for the order inside a layer, then columns that keep chains straight. The work
// is near-linear in nodes and edges: an edge over very many layers gets no stops on its way.

const LANE = [218, 204, 152], LANE_LEFT = [0, 288, 518], LANE_ALL = 670;
const LINE = 18, GAP_X = 36, GAP_Y = 16, FRAME = 12, FRAME_HEAD = 22;
const LONGEST_STOPS = 40, SWEEPS = 3;

// A forward node takes two lines, any other one.
const linesOf = (item, lane) => item.isLeaf ? item.lanes[lane].length + (lane ? 0 : 1) : 2;

function layOut(root, training) {
  const view = {items: [], frames: [], edges: []};
  placeBlock(root, training ? [0, 1, 2] : [0]);
  collect(root, 0, 0, view);
  return {...view, w: root.w, h: root.h};
}

function placeBlock(group, lanes) {
  for (const child of group.children) {
    if (!child.isLeaf && child.open) {
      placeBlock(child, lanes);
      continue;
    }
    child.w = lanes.length > 1 ? LANE_ALL : LANE[0];
    child.h = Math.max(2, ...lanes.map(lane => linesOf(child, lane))) * LINE + 4;
    child.anchor = LANE[0] / 2;
  }
  const layers = layersOf(group.children);
  addStops(group, layers);
  orderLayers(layers);
  placeColumns(layers);
  const border = group.parent ? FRAME : 0, all = layers.flat();
  const left = all.reduce((least, item) => Math.min(least, item.x), Infinity);
  let y = group.parent ? FRAME_HEAD + FRAME / 2 : 0;
  group.w = 1;
  for (const layer of layers) {
    const height = layer.reduce((most, item) => Math.max(most, item.h), 0);
    for (const item of layer) {
      item.x += border - left;
      item.y = y;
      if (item.isStop) item.h = height;
      group.w = Math.max(group.w, item.x + item.w + border);
    }
    y += height + GAP_Y;
  }
  group.h = y - GAP_Y + border;
  group.anchor = sumOf(group.children.slice(0, 1), first => first.x + first.anchor);
}

// Children stand in an order in which each follows what it reads.
function layersOf(children) {
  const reads = new Set();
  for (const child of children) child.layer = 0;
  for (const child of children) {
    for (const next of child.next.keys()) {
      next.layer = Math.max(next.layer, child.layer + 1);
      reads.add(next);
    }
  }
  // What reads nothing in here stands right before its first reader, not at the top.
  for (const child of children) {
    if (reads.has(child) || !child.next.size) continue;
    child.layer = Math.min(...[...child.next.keys()].map(next => next.layer)) - 1;
  }
  const layers = [];
  for (const child of children) (layers[child.layer] ??= []).push(child);
  return layers.filter(Boolean);
}

// Edges over several layers pass through a stop in each, so that they don't cross what is there.
function addStops(group, layers) {
  group.wires = [];
  layers.forEach((layer, i) => {
    for (const child of layer) Object.assign(child, {layer: i, up: [], down: []});
  });
  for (const child of group.children) {
    for (const [next, pairs] of child.next) {
      const stops = [], far = next.layer - child.layer > LONGEST_STOPS;
      let last = child;
      for (let at = child.layer + 1; at < next.layer && !far; ++at) {
        const stop = {isStop: true, w: 8, h: 0, anchor: 4, up: [last], down: []};
        last.down.push(stop);
        layers[at].unshift(stop);
        stops.push(stop);
        last = stop;
      }
      last.down.push(next);
      next.up.push(last);
      group.wires.push({pairs, stops});
    }
  }
}

function orderLayers(layers) {
  const number = layer => layer.forEach((item, i) => { item.order = i; });
  const sort = (layer, side) => {
    if (layer.length < 2) return;
    for (const item of layer) {
      const others = item[side];
      item.weight = others.length ? sumOf(others, other => other.order) / others.length : item.order;
    }
    layer.sort((a, b) => a.weight - b.weight || !!b.isStop - !!a.isStop);
    number(layer);
  };
  layers.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; ++sweep) {
    for (let i = 1; i < layers.length; ++i) sort(layers[i], 'up');
    for (let i = layers.length - 2; i >= 0; --i) sort(layers[i], 'down');
  }
}

// Each layer hangs on its main item, which stands below the leftmost of what it reads, so that the
// main line stays straight; the others make room.
function placeColumns(layers) {
  const gap = (a, b) => a.isStop && b.isStop ? 4 : a.isStop || b.isStop ? 12 : GAP_X;
  const area = item => item.isStop ? -1 : item.w * item.h;
  const wish = (item, otherwise) => {
    const alike = item.up.filter(other => other.isStop === item.isStop);
    const from = alike.length ? alike : item.up;
    const places = from.map(other => other.x + other.anchor - item.anchor);
    return places.length ? Math.min(...places) : otherwise;
  };
  for (const layer of layers) {
    let main = 0;
    layer.forEach((item, i) => { if (area(item) > area(layer[main])) main = i; });
    layer[main].x = wish(layer[main], 0);
    for (let i = main + 1; i < layer.length; ++i) {
      const before = layer[i - 1], least = before.x + before.w + gap(before, layer[i]);
      layer[i].x = Math.max(least, wish(layer[i], least));
    }
    for (let i = main - 1; i >= 0; --i) {
      const most = layer[i + 1].x - layer[i].w - gap(layer[i], layer[i + 1]);
      layer[i].x = Math.min(most, wish(layer[i], most));
    }
  }
}

// From places inside the blocks to places in the picture.
function collect(group, x, y, view) {
  Object.assign(group, {left: x, top: y});
  if (group.parent) view.frames.push(group);
  for (const child of group.children) {
    if (!child.isLeaf && child.open) {
      collect(child, x + child.x, y + child.y, view);
    } else {
      Object.assign(child, {left: x + child.x, top: y + child.y});
      view.items.push(child);
    }
  }
  for (const {pairs, stops} of group.wires) {
    const through = stops.map(
        stop => ({x: x + stop.x + 4, top: y + stop.y, bottom: y + stop.y + stop.h}));
    view.edges.push(...wires(pairs).map(wire => ({...wire, stops: through})));
  }
}

// Between the items that stand for these leaves, each pair once.
function wires(pairs) {
  const found = new Map();
  for (const [a, b] of pairs) {
    const from = shownItem(a), to = shownItem(b);
    if (from !== to) found.set(from.id * 2 ** 24 + to.id, {from, to});
  }
  return [...found.values()];
}

// Who of the backward pass feeds whom.
function backwardWires(model) {
  const later = model.nodes.filter(node => laneOf(node) === 1);
  return wires(later.flatMap(node => node.inputs
      .filter(value => value.maker && laneOf(value.maker) === 1)
      .map(value => [value.maker.leaf, node.leaf])));
}
