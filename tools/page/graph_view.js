// The graph: which part of it one looks at, what is open, and what pointer and keys mean. A selection
// is {node} or {block}, a folded one.

const LEAST_SCALE = 0.005, MOST_SCALE = 3, READABLE = 0.8;

class GraphView {
  constructor(canvas, model, hooks) {
    const lanes = model.training ? [0, 1, 2] : [0], paint = new GraphPaint(canvas, lanes);
    Object.assign(this, {canvas, model, hooks, lanes, paint, scale: 1, x: 0, y: 0, selected: null,
                         hits: new Set()});
    this.listen();
  }

  setTree(root) {
    this.root = root;
    this.refresh();
    this.begin();
  }
  refresh() {
    this.view = layOut(this.root, this.model.training);
    this.view.back = backwardWires(this.model);
    this.mostFlops = this.view.items.reduce((most, item) => Math.max(most, ...item.flops), 1);
    this.redraw();
  }
  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint.draw(this.view, this); });
  }

  // At a size that can be read, from the top; the main column in the middle.
  begin() {
    const {clientWidth: w, clientHeight: h} = this.canvas, {view, root} = this;
    const fits = Math.min((w - 32) / view.w, (h - 32) / view.h);
    this.scale = Math.min(1, Math.max(READABLE, fits));
    const middle = view.w * this.scale < w - 32 ? view.w / 2
        : root.anchor + ((this.lanes.length > 1 ? LANE_ALL : LANE[0]) - LANE[0]) / 2;
    this.x = w / 2 - middle * this.scale;
    this.y = Math.max(16, (h - view.h * this.scale) / 2);
    this.redraw();
  }
  fit() {
    const {clientWidth: w, clientHeight: h} = this.canvas, {view} = this;
    this.scale = Math.max(LEAST_SCALE, Math.min(1, (w - 32) / view.w, (h - 32) / view.h));
    this.x = (w - view.w * this.scale) / 2;
    this.y = (h - view.h * this.scale) / 2;
    this.redraw();
  }
  zoom(factor, px = this.canvas.clientWidth / 2, py = this.canvas.clientHeight / 2) {
    const scale = Math.max(LEAST_SCALE, Math.min(MOST_SCALE, this.scale * factor));
    this.pan((this.x - px) * (scale / this.scale - 1), (this.y - py) * (scale / this.scale - 1));
    this.scale = scale;
  }
  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.redraw();
  }
  bring({x, y, w, h}) {
    const {clientWidth, clientHeight} = this.canvas;
    if (this.scale < READABLE / 2) this.scale = READABLE;
    const shift = (at, size, length, room) => {
      const from = at * this.scale + room.from, to = from + size * this.scale;
      return from < 30 || to > length - 30 ? length / 2 - (from + to) / 2 : 0;
    };
    this.pan(shift(x, w, clientWidth, {from: this.x}), shift(y, h, clientHeight, {from: this.y}));
  }

  select(selected) {
    this.selected = selected;
    if (!selected) return this.redraw();
    const {node, block} = selected;
    let folded = false;
    for (let item = (node ? node.leaf : block).parent; item; item = item.parent) {
      folded ||= !item.open;
      item.open = true;
    }
    if (folded) this.refresh();
    this.bring(node ? this.paint.spot(node) : this.paint.cell(block, 0));
  }
  toggle(item) {
    const {left, top} = item;
    item.open = !item.open;
    this.refresh();
    // What was clicked stays under the pointer.
    this.pan((left - item.left) * this.scale, (top - item.top) * this.scale);
  }
  setAll(open) {
    const set = item => { if (!item.isLeaf) { item.open = open; item.children.forEach(set); } };
    this.root.children.forEach(set);
    this.refresh();
    this.begin();
  }

  // What is at a place of the canvas: {frame} (its head), {item, lane} of a folded block, or
  // {item, lane, node}.
  at(px, py) {
    const x = (px - this.x) / this.scale, y = (py - this.y) / this.scale;
    const inside = (left, top, w, h) => x >= left && x <= left + w && y >= top && y <= top + h;
    const frame = this.view.frames.find(f => inside(f.left, f.top, f.w, FRAME_HEAD));
    if (frame) return {frame};
    for (const item of this.view.items) {
      if (!inside(item.left, item.top, item.w, item.h)) continue;
      for (const lane of this.lanes) {
        const cell = this.paint.cell(item, lane);
        if (!item.counts[lane] || !inside(cell.x, cell.y, cell.w, cell.h)) continue;
        if (!item.isLeaf) return {item, lane, fold: lane === 0 && x < cell.x + 22};
        const line = Math.floor((y - cell.y - 2) / LINE) - (lane === 0 ? 1 : 0);
        const nodes = item.lanes[lane];
        return {item, lane, node: nodes[Math.max(0, Math.min(nodes.length - 1, line))]};
      }
    }
    return null;
  }

  listen() {
    const {canvas} = this;
    let from = null, moved = false;
    const on = (name, react) => canvas.addEventListener(name, event => {
      const box = canvas.getBoundingClientRect();
      react(event, event.clientX - box.left, event.clientY - box.top);
    }, {passive: false});
    on('pointerdown', (event, x, y) => {
      [from, moved] = [[x, y], false];
      canvas.setPointerCapture(event.pointerId);
    });
    on('pointermove', (event, x, y) => {
      if (!from) {
        const hit = this.at(x, y), {node, item} = hit || {};
        canvas.style.cursor = hit ? 'pointer' : 'grab';
        canvas.title = node ? `${node.op} ${node.title}` : item ? item.title : '';
        return;
      }
      moved ||= Math.hypot(x - from[0], y - from[1]) > 4;
      if (!moved) return;
      this.pan(x - from[0], y - from[1]);
      from = [x, y];
    });
    on('pointerup', (event, x, y) => {
      from = null;
      const hit = this.at(x, y);
      if (moved) return;
      if (hit && (hit.frame || hit.fold)) return this.toggle(hit.frame || hit.item);
      this.hooks.select(!hit ? null : hit.node ? {node: hit.node} : {block: hit.item});
    });
    on('dblclick', (event, x, y) => {
      const hit = this.at(x, y);
      if (hit && hit.item && !hit.node && !hit.fold) this.toggle(hit.item);
    });
    on('wheel', (event, x, y) => {
      event.preventDefault();
      const step = event.deltaMode === 1 ? 18 : 1, dx = event.deltaX * step, dy = event.deltaY * step;
      if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(-dy * 0.005), x, y);
      else if (event.shiftKey && !dx) this.pan(-dy, 0);
      else this.pan(-dx, -dy);
    });
    on('keydown', event => {
      const plainKey = !event.ctrlKey && !event.metaKey && !event.altKey;
      if (plainKey && this.key(event.key)) event.preventDefault();
    });
  }

  // Whether the key means something here.
  key(key) {
    const actions = {
      ArrowUp: () => this.step(-1, 0), ArrowDown: () => this.step(1, 0),
      ArrowLeft: () => this.step(0, -1), ArrowRight: () => this.step(0, 1),
      '+': () => this.zoom(1.25), '-': () => this.zoom(0.8), f: () => this.fit(),
      Enter: () => this.selected && this.selected.block && this.toggle(this.selected.block),
      Backspace: () => this.foldAround(this.selected),
    };
    if (actions[key]) actions[key]();
    return !!actions[key];
  }
  foldAround(selected) {
    const block = selected && (selected.block || selected.node.leaf).parent;
    if (!block || !block.parent) return;
    this.toggle(block);
    this.hooks.select({block});
  }
  // Up and down inside a lane, left and right between the lanes of an item.
  step(rows, sideways) {
    const {selected} = this;
    const places = this.view.items.flatMap(item => !item.isLeaf ? [{item, lane: 0, block: item}]
        : this.lanes.flatMap(lane => item.lanes[lane].map(node => ({item, lane, node}))));
    const now = selected ? places.findIndex(
        place => place.node === selected.node && place.block === selected.block) : -1;
    const here = places[now] || {};
    const side = places.filter(place => place.item === here.item &&
        Math.sign(place.lane - here.lane) === sideways);
    const next = now < 0 ? places[0]
        : sideways ? side[sideways > 0 ? 0 : side.length - 1]
        : (rows > 0 ? places.slice(now + 1) : places.slice(0, now).reverse()).find(
            place => place.lane === here.lane || place.block);
    if (next) this.hooks.select(next.node ? {node: next.node} : {block: next.block});
  }
}
