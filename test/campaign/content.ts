// Streams whose every byte is known: written once into prepared directories, and looked for after each fault.
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { ConnectionLost, RawClient, type RawResponse } from '../support/raw-client.ts';
import { createRandom } from '../support/random.ts';

const BUCKET = 'rot';
const APPENDS = 24;
const APPEND_BYTES_MAX = 4000;
const LARGE_BYTES = 200_000;
const PRODUCER = { 'Producer-Id': 'p', 'Producer-Epoch': 0 };
/** A node that goes on saying "later" says that it cannot. */
const LATER_MAX = 150;
const LATER_MS = 100;

export type Phase = 'cold' | 'early' | 'late';

interface Kept {
  readonly path: string;
  readonly isJson: boolean;
  readonly isProduced: boolean;
  readonly closes: boolean;
  readonly phases: readonly Phase[];
}

const stream = (name: string, phases: readonly Phase[], options: Partial<Kept> = {}): Kept => ({
  ...{ path: `/${BUCKET}/${name}`, isJson: false, isProduced: false, closes: false, phases },
  ...options,
});

/** Those that are there. Cold ones only where there is a store for them. */
const STREAMS: readonly Kept[] = [
  stream('cold-text', ['cold', 'late']),
  stream('cold-json', ['cold', 'early'], { isJson: true }),
  stream('early', ['early']),
  stream('early-closed', ['early'], { closes: true }),
  stream('both', ['early', 'late'], { isProduced: true }),
  stream('both-json', ['early', 'late'], { isJson: true }),
  stream('late', ['late'], { isProduced: true }),
  stream('late-json', ['late'], { isJson: true, isProduced: true }),
];
const DELETED = [stream('early-deleted', ['early']), stream('late-deleted', ['late'])];

interface Part {
  readonly body: string;
  readonly seq: number;
}

function partsOf({ path, isJson, phases }: Kept, only?: Phase): Part[] {
  const random = createRandom(path.length * 7919 + (path.charCodeAt(5) << 8));
  let seq = 0;
  return phases.flatMap((phase) =>
    Array.from({ length: APPENDS }, (_, n) => {
      const isLarge = n === APPENDS >> 1 && path.endsWith('both');
      const size = isLarge ? LARGE_BYTES : random.int(10, APPEND_BYTES_MAX);
      const text = `${path}:${phase}:${n}:${random.int(0, 2 ** 31).toString(36)}`.padEnd(size, `${n};`);
      const part = { body: isJson ? JSON.stringify({ text }) : `${text}\n`, seq: seq++ };
      return only === undefined || only === phase ? [part] : [];
    }).flat(),
  );
}

const typeOf = ({ isJson }: Kept): Record<string, string> => ({
  'Content-Type': isJson ? 'application/json' : 'text/plain',
});

const producedBy = ({ isProduced }: Kept, seq: number): Record<string, string | number> =>
  isProduced ? { ...PRODUCER, 'Producer-Seq': seq } : {};

/** The body of a whole read, with each record of a JSON stream on a line of its own. */
const contentOf = (kept: Kept): string =>
  partsOf(kept)
    .map(({ body }) => (kept.isJson ? `${body}\n` : body))
    .join('');

/** A stream as it has to be. */
export interface Expected {
  readonly bucket: string;
  readonly stream: string;
  /** Undefined: it was deleted. */
  readonly content: string | undefined;
  readonly isJson: boolean;
  readonly closes: boolean;
}

/** Those that need no cold store. */
export function expectedOf(phases: readonly Phase[]): Expected[] {
  const isHot = (kept: Kept): boolean => isHere(kept, phases) && !kept.phases.includes('cold');
  return [...STREAMS, ...DELETED].filter(isHot).map((kept) => ({
    bucket: BUCKET,
    stream: kept.path.slice(BUCKET.length + 2),
    content: DELETED.includes(kept) ? undefined : contentOf(kept),
    isJson: kept.isJson,
    closes: kept.closes,
  }));
}

/** Writes one of the phases that a system has, each append after the one before was acknowledged. */
export async function write(port: number, phase: Phase, phases: readonly Phase[]): Promise<void> {
  const client = await RawClient.connect(port);
  const expect = async (statuses: readonly number[], ...request: Parameters<RawClient['request']>): Promise<void> => {
    const { status, body } = await patient(() => client.request(...request));
    assert(statuses.includes(status), `${request[0]} ${request[1]}: ${status} ${body.toString()}`);
  };
  const all = [...STREAMS, ...DELETED].filter((kept) => kept.phases.includes(phase) && isHere(kept, phases));
  for (const kept of all) {
    if (kept.phases[0] === phase) await expect([201], 'PUT', kept.path, typeOf(kept));
    for (const { body, seq } of partsOf(kept, phase))
      await expect([200, 204], 'POST', kept.path, { ...typeOf(kept), ...producedBy(kept, seq) }, body);
    if (kept.closes && kept.phases.at(-1) === phase)
      await expect([200, 204], 'POST', kept.path, { 'Stream-Closed': 'true' });
    if (DELETED.includes(kept)) await expect([204], 'DELETE', kept.path);
  }
  client.destroy();
}

/** The outcome of a look at everything: refusals by code, and faults that no refusal excuses. */
export interface Look {
  readonly refused: readonly string[];
  readonly wrong: readonly string[];
}

export interface Wanted {
  readonly phases: readonly Phase[];
  /** Appends after the fault that were acknowledged, by path. */
  readonly later: Map<string, string>;
  /** The last append to these may be there or not: its node ended, or did not know. */
  readonly unsure: Set<string>;
  /** How often a node may say "later" before that counts as its answer. */
  readonly tries?: number;
  /** No other node repairs what is damaged. */
  readonly isAlone?: boolean;
}

export const wantedOf = (phases: readonly Phase[]): Wanted => ({ phases, later: new Map(), unsure: new Set() });

class Refused extends Error {}

/** Asks again while the node says that it cannot answer now. */
async function patient(
  ask: () => Promise<RawResponse>,
  { tries = LATER_MAX, isAlone = false }: Pick<Wanted, 'tries' | 'isAlone'> = {},
): Promise<RawResponse> {
  for (let attempt = 1; ; attempt++) {
    const answer = await ask();
    const code = answer.headers.get('millrace-error');
    if (isAlone && code === 'ROW_DAMAGED') return answer;
    // The node has waited for half a minute, and a pair that cannot agree goes on so.
    if (tries < LATER_MAX && code === 'OUTCOME_UNKNOWN') return answer;
    if (answer.status !== 503 || answer.headers.get('retry-after') === undefined || attempt >= tries) return answer;
    await delay(LATER_MS);
  }
}

/** A status and a sentence: that range is refused. Anything else than what was asked for is wrong. */
function granted(answer: RawResponse, statuses: readonly number[]): RawResponse {
  const code = answer.headers.get('millrace-error') ?? '';
  if (statuses.includes(answer.status)) return answer;
  if (answer.status >= 500 && code !== '' && code !== 'INTERNAL' && answer.body.length > 0) throw new Refused(code);
  throw new Error(`${answer.status} ${code} ${answer.body.toString('utf8', 0, 120)}`);
}

/** Reads everything, and repeats what producers sent. Throws ConnectionLost when the node ends. */
export async function look(port: number, { phases, later, unsure, isAlone = false }: Wanted): Promise<Look> {
  const refused: string[] = [];
  const wrong: string[] = [];
  const client = await RawClient.connect(port);
  const check = async (path: string, body: () => Promise<void>): Promise<void> => {
    try {
      await body();
    } catch (error) {
      if (error instanceof ConnectionLost) throw error;
      if (error instanceof Refused) refused.push(error.message);
      else wrong.push(`${path}: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  for (const kept of STREAMS.filter((one) => isHere(one, phases))) {
    const wanted = contentOf(kept) + (later.get(kept.path) ?? '');
    const allowed = unsure.has(kept.path) ? [wanted, wanted + laterOf(kept)] : [wanted];
    await check(kept.path, () => lookAt(client, kept, allowed, isAlone));
  }
  for (const { path } of DELETED.filter((one) => isHere(one, phases)))
    await check(path, async () => void granted(await patient(() => client.request('GET', path), { isAlone }), [404]));
  client.destroy();
  return { refused, wrong };
}

const isHere = (kept: Kept, phases: readonly Phase[]): boolean => kept.phases.every((phase) => phases.includes(phase));

/** The text that append() adds, as it is read. */
const laterOf = ({ path, isJson }: Kept): string => (isJson ? `${JSON.stringify(`later ${path}`)}\n` : `later ${path}`);

async function lookAt(client: RawClient, kept: Kept, allowed: readonly string[], isAlone: boolean): Promise<void> {
  let content = '';
  let offset = '-1';
  for (let isAtEnd = false; !isAtEnd;) {
    const answer = granted(
      await patient(() => client.request('GET', `${kept.path}?offset=${offset}`), { isAlone }),
      [200],
    );
    const text = answer.body.toString('utf8');
    content += asWritten(text, kept.isJson);
    isAtEnd = answer.headers.get('stream-up-to-date') === 'true';
    if (isAtEnd) assert.equal(answer.headers.get('stream-closed') === 'true', kept.closes, 'closed');
    const next = answer.headers.get('stream-next-offset') ?? '';
    assert(isAtEnd || next > offset || offset === '-1', `a read from ${offset} goes on at ${next}`);
    offset = next;
  }
  assert(allowed.includes(content), difference(content, allowed[0] ?? ''));
  if (!kept.isProduced) return;
  const last = partsOf(kept).at(-1);
  assert(last !== undefined);
  const headers = { ...typeOf(kept), ...producedBy(kept, last.seq) };
  // 200 would be an append that is there twice.
  granted(await patient(() => client.request('POST', kept.path, headers, last.body), { isAlone }), [204]);
}

/** Records as they were sent, one in each line. */
export const asWritten = (text: string, isJson: boolean): string =>
  isJson ? (JSON.parse(text) as unknown[]).map((value) => `${JSON.stringify(value)}\n`).join('') : text;

export function difference(content: string, expected: string): string {
  if (expected.startsWith(content)) return `lost: ${content.length} of ${expected.length} bytes are there`;
  let at = 0;
  while (content[at] === expected[at]) at++;
  return `changed from byte ${at} of ${expected.length} on (${content.length} are there)`;
}

/** One more append to each stream that takes any, and the one again that may be there. Throws ConnectionLost. */
export async function append(port: number, { phases, later, unsure, ...patience }: Wanted): Promise<Look> {
  const refused: string[] = [];
  const wrong: string[] = [];
  const client = await RawClient.connect(port);
  for (const kept of STREAMS.filter((one) => isHere(one, phases) && !one.closes)) {
    const text = laterOf(kept);
    const before = later.get(kept.path) ?? '';
    const producer = { 'Producer-Id': `later-${before.length}`, 'Producer-Epoch': 0, 'Producer-Seq': 0 };
    unsure.add(kept.path);
    try {
      const headers = { ...typeOf(kept), ...producer };
      granted(await patient(() => client.request('POST', kept.path, headers, text), patience), [200, 204]);
      later.set(kept.path, before + text);
      unsure.delete(kept.path);
    } catch (error) {
      if (error instanceof ConnectionLost) throw error;
      if (error instanceof Refused) refused.push(error.message);
      else wrong.push(`${kept.path}: append: ${error instanceof Error ? error.message : String(error)}`);
      if (!(error instanceof Refused && error.message === 'OUTCOME_UNKNOWN')) unsure.delete(kept.path);
    }
  }
  client.destroy();
  return { refused, wrong };
}
