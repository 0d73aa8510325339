// Draws what is in sight of a layout. Knows nothing of pointer and keys: graph_view.js does.

const LANE_COLOURS = ['--forward', '--backward', '--update'];
const OP_FONT = '600 11.5px system-ui, sans-serif', TEXT_FONT = '11px system-ui, sans-serif';
const COLOURS = ['--back', '--frame', '--cell', '--cell-line', '--line', '--text', '--muted',
                 '--wire', '--wire-back', '--forward', '--backward', '--update', '--sum', '--work',
                 '--keep', '--select', '--hit'];

// The colours of the theme, from the style sheet.
function readColours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(COLOURS.map(name => [name, style.getPropertyValue(name).trim()]));
}

// A canvas as large as its place, in pixels of the screen; the pen counts in those of the page.
function clearCanvas(canvas, pen) {
  const ratio = window.devicePixelRatio || 1, {clientWidth: w, clientHeight: h} = canvas;
  canvas.width = Math.round(w * ratio);
  canvas.height = Math.round(h * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.textBaseline = 'middle';
  return {w, h};
}

class GraphPaint {
  constructor(canvas, lanes) {
    Object.assign(this, {canvas, lanes, pen: canvas.getContext('2d'), widths: new Map()});
  }

  cell(item, lane) {
    return {x: item.left + LANE_LEFT[lane], y: item.top, w: LANE[lane],
            h: linesOf(item, lane) * LINE + 4, item, lane};
  }
  // Where a node is drawn: its line, or the cell of the folded block that it is in.
  spot(node) {
    const item = shownItem(node.leaf), lane = laneOf(node), cell = this.cell(item, lane);
    if (!item.isLeaf) return cell;
    const at = item.lanes[lane].indexOf(node), double = lane === 0 && at === 0;
    const line = lane === 0 && at > 0 ? at + 1 : at;
    return {...cell, y: cell.y + 2 + line * LINE, h: double ? 2 * LINE : LINE};
  }

  draw(view, {x, y, scale, selected, hits, mostFlops}) {
    const {pen} = this, {w, h} = clearCanvas(this.canvas, pen);
    Object.assign(this, {scale, selected, hits, mostFlops, colours: readColours()});
    pen.translate(x, y);
    pen.scale(scale, scale);
    const sight = {left: -x / scale, right: (w - x) / scale,
                   top: -y / scale, bottom: (h - y) / scale};
    const seen = item => item.left < sight.right && item.left + item.w > sight.left &&
        item.top < sight.bottom && item.top + item.h > sight.top;
    const frames = view.frames.filter(seen);
    this.detailed = scale > 0.38;
    for (const frame of frames) this.drawFrame(frame);
    this.drawWires(view, sight);
    if (this.detailed) frames.forEach(frame => this.drawTitle(frame));
    for (const item of view.items.filter(seen)) {
      for (const lane of this.lanes) if (item.counts[lane]) this.drawCell(item, lane);
      if (item.kept && this.lanes.length > 1) this.drawKept(item);
    }
    if (selected && selected.node) this.drawRelations(selected.node);
  }

  drawFrame(frame) {
    const {pen} = this;
    pen.fillStyle = this.colours['--frame'];
    pen.strokeStyle = this.colours['--line'];
    pen.lineWidth = 1;
    pen.beginPath();
    pen.roundRect(frame.left, frame.top, frame.w, frame.h, 5);
    pen.fill();
    pen.stroke();
  }
  drawTitle(frame) {
    const y = frame.top + FRAME_HEAD / 2 + 1;
    const text = this.shorten('▾ ' + frame.title, OP_FONT, frame.w - 20);
    this.pen.fillStyle = this.colours['--frame'];
    this.pen.fillRect(frame.left + 8, y - 8, this.width(text, OP_FONT) + 4, 16);
    this.text(text, frame.left + 10, y, OP_FONT, '--muted');
  }

  drawWires(view, sight) {
    const {pen} = this, foot = item => item.top + linesOf(item, 0) * LINE + 4;
    const stroke = (colour, list, trace) => {
      pen.lineWidth = Math.min(1.25 / this.scale, 1.25);
      pen.strokeStyle = this.colours[colour];
      pen.beginPath();
      for (const wire of list) {
        const {from: a, to: b} = wire;
        const top = Math.min(a.top, b.top), bottom = Math.max(a.top + a.h, b.top + b.h);
        if (top < sight.bottom && bottom > sight.top) trace(wire);
      }
      pen.stroke();
    };
    stroke('--wire', view.edges, ({from, to, stops}) => {
      let x = from.left + from.anchor, y = from.counts[0] ? foot(from) : from.top;
      pen.moveTo(x, y);
      const apart = from.parent !== to.parent, ends = {x: to.left + to.anchor, top: to.top};
      [...stops, ends].forEach((next, i) => {
        // Out of the middle of a block, or into it: beside what else is in there.
        const far = apart && next.top - y > 110;
        const side = far && i === stops.length ? to.left - 8 : far && i === 0 ? from.left - 8 : null;
        if (side != null) {
          this.curve(x, y, side, y + GAP_Y);
          pen.lineTo(side, next.top - GAP_Y);
          [x, y] = [side, next.top - GAP_Y];
        }
        this.curve(x, y, next.x, next.top);
        if (next !== ends) pen.lineTo(next.x, next.bottom);
        [x, y] = [next.x, next.bottom];
      });
    });
    stroke('--wire-back', view.back, ({from, to}) =>
        this.traceBack(this.cell(from, 1), this.cell(to, 1)));
  }

  curve(x, y, toX, toY) {
    const middle = (y + toY) / 2;
    this.pen.bezierCurveTo(x, middle, toX, middle, toX, toY);
  }
  // Up to the neighbour, or around what lies between.
  traceBack(a, b) {
    const {pen} = this, foot = b.y + b.h, straight = Math.abs(a.x - b.x) < 8, way = a.y - foot;
    if (way > 0 && way < 60) {
      pen.moveTo(a.x + a.w / 2, a.y);
      return this.curve(a.x + a.w / 2, a.y, b.x + b.w / 2, foot);
    }
    const x = a.x + a.w + 12, ay = a.y + a.h / 2, by = b.y + b.h / 2, up = ay > by ? -6 : 6;
    pen.moveTo(a.x + a.w, ay);
    pen.lineTo(x - 6, ay);
    pen.quadraticCurveTo(x, ay, x, ay + up);
    if (!straight && way > 0) {
      pen.lineTo(x, foot + 40);
      return this.curve(x, foot + 40, b.x + b.w / 2, foot);
    }
    pen.lineTo(x, by - up);
    pen.quadraticCurveTo(x, by, x - 6, by);
    pen.lineTo(b.x + b.w, by);
  }

  drawCell(item, lane) {
    const {pen, colours, selected} = this, cell = this.cell(item, lane), {x, y, w, h} = cell;
    pen.fillStyle = colours['--cell'];
    pen.strokeStyle = colours['--cell-line'];
    pen.lineWidth = 1;
    for (const shift of item.isLeaf ? [0] : [3, 0]) {  // a folded block is a stack
      pen.fillRect(x + shift, y + shift, w, h);
      pen.strokeRect(x + shift, y + shift, w, h);
    }
    pen.fillStyle = colours[LANE_COLOURS[lane]];
    pen.globalAlpha = 0.16;
    pen.fillRect(x + 3, y, (w - 3) * item.flops[lane] / this.mostFlops, h);
    pen.globalAlpha = 1;
    pen.fillRect(x, y, 3, h);
    if (this.detailed) this.writeCell(item, lane, cell);
    const nodes = this.hits.size || selected ? nodesOf(item, lane) : [];
    const ring = (colour, width, node) => {
      const place = node ? this.spot(node) : cell;
      pen.strokeStyle = colours[colour];
      pen.lineWidth = Math.max(width, 1.2 / this.scale);
      pen.strokeRect(place.x - 1, place.y - 1, place.w + 2, place.h + 2);
    };
    for (const node of nodes) if (this.hits.has(node)) ring('--hit', 1.5, node);
    if (selected && selected.block === item) ring('--select', 2);
    if (selected && nodes.includes(selected.node)) ring('--select', 2, selected.node);
  }

  writeCell(item, lane, cell) {
    const row = i => cell.y + 2 + (i + 0.5) * LINE, flops = formatFlops(item.flops[lane]);
    if (!item.isLeaf) {
      const title = lane === 0 ? '▸ ' + item.title : ['', 'backward', 'update'][lane];
      this.write(title, '', cell, row(0), lane ? TEXT_FONT : OP_FONT, lane ? '--muted' : '--text');
      return this.write(plural(item.counts[lane], 'node'), flops, cell, row(1), TEXT_FONT, '--muted');
    }
    item.lanes[lane].forEach((node, i) => {
      const operations = formatFlops(node.flops), type = node.outputs[0] && node.outputs[0].type;
      if (lane === 0 && i === 0) {
        this.write(node.op, formatShape(type), cell, row(0), OP_FONT, '--text');
        return this.write(node.title, operations, cell, row(1), TEXT_FONT, '--muted', true);
      }
      const at = lane === 0 ? i + 1 : i, mark = {again: '↻ ', sum: 'Σ '}[node.phase] || '';
      if (mark === 'Σ ') {
        this.pen.fillStyle = this.colours['--sum'];
        this.pen.fillRect(cell.x, row(at) - LINE / 2, 3, LINE);
      }
      const right = lane === 2 ? node.title.replace(/'+$/, '')
          : lane === 0 ? (type.layout ? plain(type.layout) : 'plain') : operations;
      this.write(mark + node.op, right, cell, row(at), TEXT_FONT, '--text');
    });
  }

  // An operator makes no room for what stands at the right, a name does.
  write(left, right, cell, y, font, colour, isName = false) {
    const room = cell.w - 16, kept = isName && right ? this.width(right, TEXT_FONT) + 8 : 0;
    const text = this.shorten(left, font, room - kept, isName);
    this.text(text, cell.x + 9, y, font, colour);
    const rest = this.shorten(right, TEXT_FONT, room - this.width(text, font) - 8, true);
    this.text(rest, cell.x + cell.w - 7, y, TEXT_FONT, '--muted', 'right');
  }
  text(text, x, y, font, colour, align = 'left') {
    Object.assign(this.pen, {font, fillStyle: this.colours[colour], textAlign: align});
    this.pen.fillText(text, x, y);
  }
  width(text, font) {
    const key = font + text;
    if (!this.widths.has(key)) {
      if (this.widths.size > 20000) this.widths.clear();
      this.pen.font = font;
      this.widths.set(key, this.pen.measureText(text).width);
    }
    return this.widths.get(key);
  }
  // Names differ at their end, titles at their beginning.
  shorten(text, font, room, keepsEnd = false) {
    if (this.width(text, font) <= room) return text;
    const chars = [...text];
    for (let n = Math.floor(chars.length * room / this.width(text, font)); n > 0; --n) {
      const cut = keepsEnd ? '…' + chars.slice(-n).join('') : chars.slice(0, n).join('') + '…';
      if (this.width(cut, font) <= room) return cut;
    }
    return '';
  }

  // Between forward and backward: what is kept.
  drawKept(item) {
    const {pen} = this, from = this.cell(item, 0), to = this.cell(item, 1);
    const y = from.y + LINE + 2, left = from.x + from.w + (item.isLeaf ? 1 : 4);
    const end = item.counts[1] ? to.x : to.x - 8;
    this.dashed('--keep', 1, [3, 3], () => { pen.moveTo(left, y); pen.lineTo(end, y); });
    if (!this.detailed) return;
    const text = formatBytes(item.kept), width = this.width(text, TEXT_FONT) + 6;
    pen.fillStyle = this.colours['--back'];
    pen.fillRect((left + to.x - width) / 2, y - 7, width, 14);
    this.text(text, (left + to.x) / 2, y, TEXT_FONT, '--muted', 'center');
  }
  dashed(colour, width, dash, trace) {
    const {pen} = this;
    pen.strokeStyle = this.colours[colour];
    pen.lineWidth = Math.max(width, 1.2 / this.scale);
    pen.setLineDash(dash);
    pen.beginPath();
    trace();
    pen.stroke();
    pen.setLineDash([]);
  }

  // What the selected node reads and feeds; thick and dashed, what stays in memory between.
  drawRelations(node) {
    const line = (maker, reader) => {
      const a = this.spot(maker), b = this.spot(reader);
      if (a.item === b.item && a.lane === b.lane) return;
      const kept = laneOf(maker) === 0 && laneOf(reader) !== 0;
      if (kept) this.dashed('--keep', 2.5, [6, 4], () => this.link(a, b));
      else this.dashed('--select', 1.5, [], () => this.link(a, b));
    };
    for (const value of new Set(node.inputs)) if (value.maker) line(value.maker, node);
    for (const reader of new Set(node.outputs.flatMap(value => value.readers))) line(node, reader);
  }
  // Across from side to side, up or down to a neighbour, else around the left.
  link(a, b) {
    const {pen} = this, right = a.x + a.w < b.x, ay = a.y + a.h / 2, by = b.y + b.h / 2;
    const down = a.y < b.y, from = down ? a.y + a.h : a.y, to = down ? b.y : b.y + b.h;
    if (right || b.x + b.w < a.x) {
      const ax = right ? a.x + a.w : a.x, bx = right ? b.x : b.x + b.w, middle = (ax + bx) / 2;
      pen.moveTo(ax, ay);
      pen.bezierCurveTo(middle, ay, middle, by, bx, by);
    } else if (Math.abs(to - from) < 80) {
      pen.moveTo(a.x + a.w / 2, from);
      this.curve(a.x + a.w / 2, from, b.x + b.w / 2, to);
    } else {
      const x = Math.min(a.x, b.x) - 18;
      pen.moveTo(a.x, ay);
      pen.bezierCurveTo(x, ay, x, by, b.x, by);
    }
  }
}
