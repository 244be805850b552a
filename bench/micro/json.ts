// Normalising JSON bodies on the shard thread, next to JSON.parse of the decoded text: the least that a service pays
// that builds values (it would still have to write them out again). `--smoke` runs each case once, for tests.

import { createHash } from 'node:crypto';
import { JsonNormalizer } from '../../src/json/json-records.ts';
import { describeMachine, machineLine } from '../machine.ts';

const SMOKE = process.argv.includes('--smoke');
/** Bytes that each measurement passes through, long enough for the compiler to settle. */
const PASS_BYTES = SMOKE ? 1 : 64 * 1024 * 1024;
const PASSES = SMOKE ? 1 : 5;

const decoder = new TextDecoder();

/** One record of an event log: short strings, some numbers, a nested object. */
function event(i: number): unknown {
  return {
    id: `evt_${1_000_000 + i}`,
    type: i % 3 === 0 ? 'message.created' : 'tool.result',
    at: 1_767_225_600_000 + i * 37,
    actor: { id: i % 97, name: 'Ada Lovelace', admin: i % 2 === 0 },
    text: 'The quick brown fox jumps over the lazy dog, then rests.',
    score: i / 7,
    tags: ['alpha', 'beta', null],
  };
}

function eventsOfAbout(bytes: number): unknown[] {
  const list: unknown[] = [];
  for (let size = 0; size < bytes; size += JSON.stringify(list.at(-1)).length) list.push(event(list.length));
  return list;
}

const LONG_TEXT = 'Lorem ipsum dolor sit amet, consectetur adipiscing elit. '.repeat(80);
const CASES: [string, string][] = [
  ['object 250 B', JSON.stringify(event(1))],
  ['array 1 KiB', JSON.stringify(eventsOfAbout(1024))],
  ['array 8 KiB', JSON.stringify(eventsOfAbout(8192))],
  ['array 64 KiB', JSON.stringify(eventsOfAbout(65_536))],
  ['object 64 KiB', JSON.stringify({ items: eventsOfAbout(65_536) })],
  ['array 64 KiB, indented', JSON.stringify(eventsOfAbout(40_000), null, 2)],
  ['text 4.5 KiB', JSON.stringify({ text: LONG_TEXT })],
  ['Japanese 6 KiB', JSON.stringify({ text: '吾輩は猫である。名前はまだ無い。'.repeat(128) })],
  ['numbers 32 KiB', JSON.stringify(Array.from({ length: 4000 }, (_, i) => ((i * 7919) % 100_003) / 8))],
];

/** MB/s (10^6 bytes) of the best pass: other work on the machine only ever slows a pass down. */
function megabytesPerSecond(bytes: number, run: () => void): number {
  const runs = Math.max(1, Math.round(PASS_BYTES / bytes));
  let best = Infinity;
  for (let pass = 0; pass < PASSES; pass++) {
    const start = performance.now();
    for (let i = 0; i < runs; i++) run();
    best = Math.min(best, performance.now() - start);
  }
  return (bytes * runs) / best / 1000;
}

const hash = createHash('sha256');
let sink = 0;
const json = new JsonNormalizer();
console.log(machineLine(describeMachine('.')));
console.log('case                        bytes   normalize   JSON.parse   (MB/s, best pass)');
for (const [name, text] of CASES) {
  const body = new TextEncoder().encode(text);
  const result = json.records(body);
  if (!result.ok) throw new Error(`${name}: ${result.reason}`);
  hash.update(result.bytes);
  const ours = megabytesPerSecond(body.length, () => {
    const r = json.records(body);
    if (r.ok) sink += r.bytes.length;
  });
  const peer = megabytesPerSecond(body.length, () => {
    sink += JSON.parse(decoder.decode(body)) === null ? 1 : 0;
  });
  const columns = [body.length, ours.toFixed(0), peer.toFixed(0)].map(String);
  console.log(`${name.padEnd(24)} ${columns[0]?.padStart(8)} ${columns[1]?.padStart(11)} ${columns[2]?.padStart(12)}`);
}
console.log(`result hash ${hash.digest('hex').slice(0, 16)}, sink ${sink === 0 ? 'empty' : 'used'}`);
