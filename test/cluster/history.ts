// The answers to a cluster's clients about their appends, checked against what the nodes hold in the end.
// Each append names its writer and number, so the bytes of a stream alone tell which appends took effect, how often,
// and where.
import assert from 'node:assert/strict';

/** `refused`: the answer promised that nothing was done. `unknown`: no answer, or one that says so. */
export type Outcome = 'acknowledged' | 'refused' | 'unknown';

export interface SentAppend {
  readonly writer: number;
  readonly number: number;
  readonly text: string;
  outcome: Outcome;
  /** Offset behind its last byte, from the acknowledgement. */
  end: number;
}

export interface StreamHistory {
  readonly name: string;
  readonly path: string;
  readonly appends: Map<string, SentAppend>;
}

export interface Tally {
  acknowledged: number;
  refused: number;
  unknownPresent: number;
  unknownAbsent: number;
  reads: number;
}

export const newTally = (): Tally => ({ acknowledged: 0, refused: 0, unknownPresent: 0, unknownAbsent: 0, reads: 0 });

export function newStream(bucket: string, name: string): StreamHistory {
  return { name, path: `/${bucket}/${name}`, appends: new Map() };
}

export function newAppend(stream: StreamHistory, writer: number, number: number, padBytes: number): SentAppend {
  const text = `${writer}:${number}:${'x'.repeat(padBytes)}\n`;
  const append: SentAppend = { writer, number, text, outcome: 'unknown', end: -1 };
  stream.appends.set(`${writer}:${number}`, append);
  return append;
}

/** Every acknowledged append once, at the offset that was answered; refused ones never; others at most once. */
export function checkStream(stream: StreamHistory, content: string, tally: Tally): void {
  const found = new Set<SentAppend>();
  const latest = new Map<number, number>();
  let at = 0;
  assert(content === '' || content.endsWith('\n'), `${stream.name} ends inside an append`);
  for (const line of content.split('\n').slice(0, -1)) {
    const [writer, number] = line.split(':');
    const append = stream.appends.get(`${writer}:${number}`);
    const label = `${stream.name}: append ${writer}:${number} at ${at}`;
    assert(append !== undefined, `${label} was never sent: ${line.slice(0, 80)}`);
    assert.equal(`${line}\n`, append.text, `${label} has other bytes than were sent`);
    assert(!found.has(append), `${label} is there twice (${append.outcome})`);
    assert(append.outcome !== 'refused', `${label} was refused with the promise that nothing was done`);
    found.add(append);
    at += append.text.length;
    if (append.outcome !== 'acknowledged') continue;
    assert.equal(append.end, at, `${label} was acknowledged with another offset`);
    const before = latest.get(append.writer) ?? -1;
    assert(append.number > before, `${label} comes after ${append.writer}:${before}, which was acknowledged later`);
    latest.set(append.writer, append.number);
  }
  for (const append of stream.appends.values()) {
    const isThere = found.has(append);
    assert(
      isThere || append.outcome !== 'acknowledged',
      `${stream.name}: append ${append.writer}:${append.number} was acknowledged (end ${append.end} of ${at}) and is lost`,
    );
    if (append.outcome === 'acknowledged') tally.acknowledged++;
    else if (append.outcome === 'refused') tally.refused++;
    else if (isThere) tally.unknownPresent++;
    else tally.unknownAbsent++;
  }
}
