// Fields of a declared record beside loads and stores written by hand: what the head of a log
// entry costs each way. Code that looks the same must cost the same, or declarations would have no
// place on the append path. `--smoke` runs each case once.

import { viewOf } from '../../src/base/bytes.ts';
import { bytes, f64, f64OrNone, struct, text, u16, u32, u48BE, u8, zeros } from '../../src/base/struct.ts';
import { describeMachine, machineLine } from '../machine.ts';

const RUNS = process.argv.includes('--smoke') ? 1 : 5_000_000;
const PASSES = 5;

const ENTRY = struct({ group: u16, kind: u8, zero: zeros(1), dataBytes: u32, term: f64, index: f64 }, 'data');
const { group, kind, zero, dataBytes, term, index } = ENTRY.fields;
const OTHER = struct({ kind: u8, gap: zeros(3), id: u48BE, digest: bytes(32), name: text(16), at: f64OrNone });

const room = new Uint8Array(1024 * ENTRY.size);
const view = viewOf(room);
let sink = 0;

const CASES: Readonly<Record<string, (at: number, i: number) => void>> = {
  'write by hand': (at, i) => {
    view.setUint16(at, i & 15, true);
    room[at + 2] = 1;
    room[at + 3] = 0;
    view.setUint32(at + 4, i, true);
    view.setFloat64(at + 8, 3, true);
    view.setFloat64(at + 16, i, true);
  },
  'write fields': (at, i) => {
    group.set(view, at, i & 15);
    kind.set(view, at, 1);
    zero.clear(view, at);
    dataBytes.set(view, at, i);
    term.set(view, at, 3);
    index.set(view, at, i);
  },
  'write the record': (at, i) => {
    ENTRY.write(view, at, { group: i & 15, kind: 1, dataBytes: i, term: 3, index: i });
  },
  'read by hand': (at) => {
    sink += view.getUint16(at, true) + (room[at + 2] ?? 0) + view.getUint32(at + 4, true);
    sink += view.getFloat64(at + 8, true) + view.getFloat64(at + 16, true);
  },
  'read fields': (at) => {
    sink += group.get(view, at) + kind.get(view, at) + dataBytes.get(view, at);
    sink += term.get(view, at) + index.get(view, at);
  },
  'read the record': (at) => {
    const entry = ENTRY.read(view, at);
    sink += entry.group + entry.kind + entry.dataBytes + entry.term + entry.index;
  },
};

/** Other records and shared memory went through the same code before, as in the service. */
function prepare(): void {
  const shared = new DataView(new SharedArrayBuffer(1024));
  const values = { kind: 1, id: 2, digest: new Uint8Array(32), name: 'abcdefghijklmnop', at: -1 };
  for (let i = 0; i < RUNS / 100; i++) {
    OTHER.write(shared, i & 255, values);
    sink += OTHER.read(shared, i & 255).id;
    ENTRY.write(shared, i & 255, ENTRY.read(view, 0));
  }
}

prepare();
console.log(machineLine(describeMachine('.')));
for (const [name, run] of Object.entries(CASES)) {
  let best = Infinity;
  for (let pass = 0; pass < PASSES; pass++) {
    const start = performance.now();
    for (let i = 0; i < RUNS; i++) run((i & 1023) * ENTRY.size, i);
    best = Math.min(best, performance.now() - start);
  }
  console.log(`${name.padEnd(20)} ${((best / RUNS) * 1e6).toFixed(1).padStart(7)} ns`);
}
if (sink === 0) console.log('nothing was read');
