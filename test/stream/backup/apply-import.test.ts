// Replicas that write to their stores at different moments hold the same rows after an import and what follows it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { DocumentReader } from '../../../src/backup/format/document.ts';
import { errorCode } from '../../../src/base/errors.ts';
import { fromHex } from '../../../src/base/hex.ts';
import { apply } from '../../../src/stream/apply.ts';
import { State } from '../../../src/stream/core/state.ts';
import {
  Command,
  type CommandFields,
  commandBytesMax,
  newCommandFields,
  writeCommand,
} from '../../../src/protocol/command.ts';
import { encodeImportEnd, encodeImportRows, encodeImportToken } from '../../../src/protocol/import-command.ts';
import { NO_ORIGIN } from '../../../src/protocol/object-key.ts';
import { Reply } from '../../../src/protocol/reply.ts';
import { rowSize, writeRow } from '../../../src/base/row-bytes.ts';
import { REPO_ROOT } from '../../support/paths.ts';
import { createRandom } from '../../support/random.ts';
import { SortedMapTx } from '../sorted-map-tx.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';

const GROUP = 0x0102;
const FOLDER = join(REPO_ROOT, 'test', 'backup', 'golden', 'format-1');
const TOKEN = '0123456789abcdef';
const OTHER = 'fedcba9876543210';
const NOW_MS = 1_800_000_000_000;
const SILENCE_MS = 10_000;
const ROWS_PER_PIECE = 20;

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

interface Step {
  readonly kind: number;
  readonly nowMs?: number;
  readonly more?: Partial<CommandFields>;
  readonly code?: string;
  /** Repeat while the reply says that more is left. */
  readonly all?: true;
}

class Replica {
  readonly #tx = new SortedMapTx();
  readonly #state = new State(GROUP, this.#tx);
  readonly #reply = new Reply();

  do({ kind, nowMs = NOW_MS, more = {}, code = 'OK', all }: Step): void {
    const fields = { ...newCommandFields(), kind, nowMs, ...more };
    const bytes = new Uint8Array(commandBytesMax(fields));
    const view = new DataView(bytes.buffer);
    writeCommand(fields, bytes, view, 0);
    const command = new Command();
    command.read(bytes, view, 0);
    do {
      this.#reply.reset(1);
      this.#state.appliedIndex++;
      apply(this.#state, command, this.#reply);
      assert.equal(errorCode(this.#reply.code), code, `command ${kind}`);
    } while (all === true && COMMANDS.importAbort.result.read(this.#reply).rowsLeft);
  }

  flush(): void {
    this.#tx.begin();
    this.#state.flush();
    this.#tx.commit();
    this.#state.flushed();
  }

  rows(): [string, string][] {
    const rows: [string, string][] = [];
    this.#tx.range(new Uint8Array([0]), new Uint8Array([0xff, 0xff]), false, (key, value) => {
      return rows.push([hex(key), hex(value)]) > 0;
    });
    return rows;
  }

  get lineage(): number {
    return this.#state.lineage;
  }

  get appliedCommands(): number {
    return this.#state.appliedCommands;
  }
}

/** The commands that bring the golden snapshot in. */
function importSteps(): Step[] {
  const pieces: Uint8Array[][] = [[]];
  let rows = 0;
  const reader = new DocumentReader(
    () => undefined,
    (key, value) => {
      const whole = new Uint8Array(2 + key.length);
      whole.set(key, 2);
      const row = new Uint8Array(rowSize(whole, value));
      writeRow(row, 0, whole, value);
      if (rows++ % ROWS_PER_PIECE === 0) pieces.push([]);
      pieces.at(-1)?.push(row);
    },
  );
  reader.push(readFileSync(join(FOLDER, 'group-0000.snapshot')));
  const contents = reader.end();
  const full = pieces.filter((piece) => piece.length > 0);
  const steps: Step[] = full.map((piece, seq) => ({
    kind: COMMANDS.importRows.number,
    more: { payload: encodeImportRows({ token: TOKEN, seq, rows: Buffer.concat(piece) }) },
  }));
  const digest = fromHex(contents.digest, 32) as Uint8Array;
  const end = encodeImportEnd({ ...contents, token: TOKEN, pieces: full.length, rows, digest, origin: NO_ORIGIN });
  return [...steps, { kind: COMMANDS.importEnd.number, more: { payload: end } }];
}

function story(): Step[] {
  const { world } = JSON.parse(readFileSync(join(FOLDER, 'expected.json'), 'utf8')) as { world: { streams: string[] } };
  const [first = '', second = ''] = world.streams;
  const named = (path: string): Pick<CommandFields, 'bucket' | 'stream'> => {
    const [bucket = '', stream = ''] = path.slice(1).split('/').map(decodeURIComponent);
    return { bucket, stream };
  };
  const begin = { kind: COMMANDS.importBegin.number, more: { payload: encodeImportToken(TOKEN) } };
  const [firstRows, ...rest] = importSteps() as [Step, ...Step[]];
  const create = { kind: COMMANDS.create.number, more: { ...named('/new/stream'), contentType: 'text/plain' } };
  const payload = new Uint8Array(Buffer.from('more'));
  const append = { kind: COMMANDS.append.number, more: { ...named(first), contentType: 'text/plain', payload } };
  const abort = { kind: COMMANDS.importAbort.number, more: { payload: encodeImportToken(OTHER) } };
  const late = { kind: COMMANDS.importBegin.number, more: { payload: encodeImportToken(OTHER) } };
  return [
    begin,
    begin,
    firstRows,
    { ...create, code: 'GROUP_IMPORTING' },
    { ...late, code: 'IMPORT_RUNNING' },
    { ...abort, code: 'IMPORT_LOST' },
    // The node of the first attempt is gone: another one takes over, and takes out what is there.
    { ...late, nowMs: NOW_MS + SILENCE_MS },
    { ...firstRows, code: 'IMPORT_LOST' },
    { ...abort, all: true },
    // Its BEGIN once more, and the answer to its end: nothing would continue what that began.
    { ...late, nowMs: NOW_MS + SILENCE_MS, code: 'IMPORT_LOST' },
    abort,
    begin,
    // A piece whose answer was lost comes twice; one that comes too early does not count.
    firstRows,
    firstRows,
    { ...(rest[1] as Step), code: 'IMPORT_LOST' },
    { ...(rest.at(-1) as Step), code: 'IMPORT_LOST' },
    // A BEGIN that comes late undoes nothing.
    begin,
    ...rest,
    rest.at(-1) as Step,
    { ...begin, code: 'GROUP_NOT_EMPTY' },
    append,
    { kind: COMMANDS.deleteStream.number, more: named(second) },
    create,
    append,
  ];
}

test('an import leaves the same rows regardless of flushes in between', () => {
  const steps = story();
  const run = (flushes: (step: number) => boolean): Replica => {
    const replica = new Replica();
    steps.forEach((step, i) => {
      replica.do(step);
      if (flushes(i)) replica.flush();
    });
    // Enough for all garbage.
    for (let i = 0; i < 4; i++) replica.flush();
    return replica;
  };
  const never = run(() => false);
  assert(never.rows().length > 100);
  // The import counts as one; then four commands, and those that were refused or repeated.
  assert.equal(never.appliedCommands, 1 + 6);
  assert.deepEqual(run(() => true).rows(), never.rows());
  for (let seed = 1; seed <= 20; seed++) {
    const random = createRandom(seed);
    assert.deepEqual(run(() => random.chance(0.3)).rows(), never.rows(), `seed ${seed}`);
  }
});

test('an import begins another lineage: what readers hold of the streams before it does not count', () => {
  const replica = new Replica();
  const steps = story();
  const ends = steps.flatMap(({ kind }, i) => (kind === COMMANDS.importEnd.number ? [i] : []));
  const last = ends.at(-2) ?? -1;
  steps.forEach((step, i) => {
    replica.do(step);
    // The first END comes too early, the last one is a repetition.
    assert.equal(replica.lineage, i < last ? 1 : 2, `after step ${i}`);
  });
});
