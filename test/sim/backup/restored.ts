/**
 * Conditions on the group that a backup comes into, judged by the reference: nothing but the import takes effect
 * before its end, at its end everything is as it was in the group that was exported, and what is given up leaves
 * nothing.
 */
import { toHex } from '../../../src/base/hex.ts';
import type { ImportMark } from '../../../src/stream/core/import-mark.ts';
import { isImporting } from '../../../src/stream/backup/apply-import.ts';
import { TAG, prefixEnd, taggedKey } from '../../../src/stream/core/keys.ts';
import type { State } from '../../../src/stream/core/state.ts';
import { type Command } from '../../../src/protocol/command.ts';
import { errorNumber } from '../../../src/base/errors.ts';
import { decodeImportEnd } from '../../../src/protocol/import-command.ts';
import { NO_ORIGIN } from '../../../src/protocol/object-key.ts';
import type { Reply } from '../../../src/protocol/reply.ts';
import { latin1 } from '../../support/sorted-rows.ts';
import type { World } from '../world.ts';
import type { Taken } from './exporting.ts';
import { FORGED_PIECES } from './import-chaos.ts';
import { type Gauges, gaugesDiffer, rowsDiffer } from './state-digest.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';

/** All kinds of rows but meta and the mark of the import. */
const TAGS: readonly number[] = Object.values(TAG).filter((tag) => tag !== TAG.meta && tag !== TAG.import);
const NOTHING = new Uint8Array(0);
const TOKEN_BYTES = 8;
/** An attempt may be silent for at least so long (stream/backup/apply-import.ts). */
const SILENCE_MS = 10_000;

export class Restored {
  readonly counts = { importPieces: 0, importsUndone: 0, importsDone: 0, refusedMeanwhile: 0 };
  /** The document that comes in. */
  taken: Taken | undefined;
  readonly #world: World;
  #wasImporting = false;
  #markBefore: ImportMark | undefined;
  /** Token of the last attempt that was given up. */
  #undoneToken = '';

  constructor(world: World, target: number) {
    this.#world = world;
    const reference = world.checks.references[target];
    if (reference === undefined) throw new Error(`there is no group ${target}`);
    const { before, after } = reference;
    reference.before = (state, command) => {
      this.#wasImporting = isImporting(state);
      this.#markBefore = state.imported;
      before(state, command);
    };
    reference.after = (state, command, reply) => {
      after(state, command, reply);
      this.#after(state, command, reply);
    };
  }

  #fail(what: string): void {
    if (!this.#world.blind) throw this.#world.failure(`import: ${what}`);
  }

  #after(state: State, command: Command, reply: Reply): void {
    const { kind } = command;
    if (kind < COMMANDS.importBegin.number || kind > COMMANDS.importAbort.number) {
      if (!this.#wasImporting) return undefined;
      this.counts.refusedMeanwhile++;
      if (reply.code !== errorNumber('GROUP_IMPORTING'))
        this.#fail(`a command of kind ${kind} is carried out meanwhile`);
      if (kind === COMMANDS.expire.number || kind === COMMANDS.touch.number)
        this.#fail(`kind ${kind} is proposed meanwhile`);
      return undefined;
    }
    this.#ofAttempt(state, command, reply);
    if (reply.code !== 0) return undefined;
    const token = state.imported?.token ?? '';
    if (isImporting(state) && token === this.#undoneToken) this.#fail(`${token} was given up, and begins again`);
    if (kind === COMMANDS.importAbort.number && this.#wasImporting && !isImporting(state)) return this.#undone(state);
    if (kind === COMMANDS.importEnd.number && this.#wasImporting) return this.#done(state);
    if (isImporting(state)) this.counts.importPieces++;
    return undefined;
  }

  /** No attempt blocks another one, and an import is taken over only when it has been silent for long. */
  #ofAttempt(state: State, { kind, nowMs, bytes, payloadAt, payloadBytes }: Command, reply: Reply): void {
    const mark = this.#markBefore;
    if (mark === undefined || !this.#wasImporting) return;
    const payload = bytes.subarray(payloadAt, payloadAt + payloadBytes);
    const isOwn = mark.phase === 'rows' && mark.token === toHex(payload.subarray(0, TOKEN_BYTES));
    const isForged = kind === COMMANDS.importEnd.number && decodeImportEnd(payload)?.pieces === FORGED_PIECES;
    if (isOwn && !isForged && reply.code === errorNumber('IMPORT_LOST')) this.#fail(`${mark.token} is refused its own`);
    if (isOwn && kind === COMMANDS.importBegin.number && state.imported !== mark)
      this.#fail(`${mark.token} ends its own`);
    const silentMs = nowMs - mark.lastMs;
    if (state.imported?.token !== mark.token && silentMs >= 0 && silentMs < SILENCE_MS)
      this.#fail(`${mark.token} is taken over after ${silentMs} ms`);
  }

  #undone(state: State): void {
    this.counts.importsUndone++;
    this.#undoneToken = state.imported?.token ?? '';
    const [left] = rowsOf(state);
    if (left !== undefined) this.#fail(`it is given up and leaves rows, one of them ${JSON.stringify(left[0])}`);
  }

  #done(state: State): void {
    this.counts.importsDone++;
    const { taken } = this;
    if (taken === undefined) return this.#fail('there was none');
    const { stateDigest, contents } = taken;
    const { cold } = state;
    const gauges: Gauges = {
      buckets: stateDigest.gauges.buckets,
      streams: stateDigest.gauges.streams,
      hotBytes: state.hotBytes,
      coldBytes: cold.bytes,
      objects: cold.objects,
      objectBytes: cold.objectBytes,
      nextIncarnation: state.nextIncarnation,
    };
    const difference = rowsDiffer(stateDigest.rows, new Map(rowsOf(state))) ?? gaugesDiffer(stateDigest.gauges, gauges);
    if (difference !== undefined) this.#fail(difference);
    if (state.appliedCommands !== 1) this.#fail(`the group begins at ${state.appliedCommands}, not at 1`);
    if (cold.gcLength !== 0) this.#fail(`${cold.gcLength} objects wait to be deleted`);
    if (cold.origin !== NO_ORIGIN) this.#fail(`the objects of ${cold.origin} are taken for its own`);
    if (state.imported?.phase !== 'done' || toHex(state.imported.digest) !== contents.digest)
      this.#fail('the group does not say where it came from');
    return undefined;
  }
}

/** As commands see them: flushed or not. */
function rowsOf(state: State): [string, string][] {
  const rows: [string, string][] = [];
  for (const tag of TAGS) {
    const start = taggedKey(state.prefix, tag, NOTHING);
    state.overlay.range(start, prefixEnd(start), false, (key, value) => {
      return rows.push([latin1(key.subarray(2)), latin1(value)]) > 0;
    });
  }
  return rows;
}
