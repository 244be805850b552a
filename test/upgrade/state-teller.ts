// A group without consensus: commands go into its log as a leader puts them there, what they leave behind and answer is
// compared with layouts.json. Nothing is random, and time is in the commands.
import assert from 'node:assert/strict';
import { prepare } from '../../src/group/prepare.ts';
import { apply } from '../../src/stream/apply.ts';
import { State } from '../../src/stream/core/state.ts';
import {
  Command,
  type CommandFields,
  commandBytesMax,
  newCommandFields,
  writeCommand,
} from '../../src/protocol/command.ts';
import { EntryBuilder, eachCommand } from '../../src/group/entry.ts';
import { Reply } from '../../src/protocol/reply.ts';
import { SortedMapTx } from '../stream/sorted-map-tx.ts';
import type { Layouts } from './layouts.ts';

export const NOW = 1_700_000_000_000;
const SLOT = 0x4000_0001;

/** Compares, or takes what comes. */
type Comparer = Pick<Layouts, 'same'>;

export class Teller {
  readonly layouts: Comparer;
  readonly tx: SortedMapTx = new SortedMapTx();
  state: State;
  /** Time of the command to come. */
  nowMs = NOW;
  readonly #group: number;
  readonly #entry = new EntryBuilder();

  constructor(group: number, layouts: Comparer) {
    this.#group = group;
    this.layouts = layouts;
    this.state = new State(group, this.tx);
  }

  /** A command of a client; the answer as another node gets it for its client. */
  say(name: string, more: Partial<CommandFields>): Reply {
    const fields = { ...newCommandFields(), bucket: 'orders', ...more };
    const bytes = new Uint8Array(commandBytesMax(fields));
    const view = new DataView(bytes.buffer);
    const size = writeCommand(fields, bytes, view, 0);
    this.layouts.same(`${name}: command`, bytes.subarray(0, size));
    const command = new Command();
    command.read(bytes, view, 0);
    assert(prepare(command, this.nowMs, this.#entry, new Reply()), `${name} is proposed`);
    return this.hear(name, this.#entry.finish());
  }

  /** An entry of the log. */
  hear(name: string, data: Uint8Array): Reply {
    const entry = this.layouts.same(`${name}: entry`, data);
    const reply = new Reply();
    eachCommand(entry, new Command(), () => {
      reply.reset(SLOT);
      apply(this.state, readOf(entry), reply);
    });
    this.state.appliedIndex++;
    this.state.appliedTerm = 3;
    const bytes = new Uint8Array(reply.bytesMax());
    const size = reply.write(bytes, new DataView(bytes.buffer), 0);
    const answer = this.layouts.same(`${name}: reply`, bytes.subarray(0, size));
    const read = new Reply();
    read.read(answer, new DataView(answer.buffer), 0);
    assert.deepEqual({ ...read, body: read.body?.slice() }, { ...reply, body: asRead(reply.body) }, name);
    this.nowMs += 1000;
    return reply;
  }

  /** Writes to the store and compares every row. What was written is what the next command finds. */
  rows(name: string): void {
    this.tx.begin();
    this.state.flush();
    this.tx.commit();
    this.state.flushed();
    this.tx.range(new Uint8Array([0]), new Uint8Array([0xff, 0xff]), false, (key, value) => {
      const known = this.layouts.same(`${name}: row ${Buffer.from(key).toString('hex')}`, value);
      return known.length >= 0;
    });
    // Another process reads them.
    this.state = new State(this.#group, this.tx);
  }
}

/** The one command of an entry. */
function readOf(entry: Uint8Array): Command {
  const command = new Command();
  command.read(entry, new DataView(entry.buffer, entry.byteOffset, entry.byteLength), 4);
  return command;
}

const asRead = (body: Uint8Array | undefined): Uint8Array | undefined =>
  body === undefined || body.length === 0 ? undefined : new Uint8Array(body);
