// Commands that make forks, applied to groups without consensus. Each group is two replicas that write to their stores
// at different moments and restart: at the end they must hold the same rows.
import assert from 'node:assert/strict';
import { type ErrorCode, errorCode } from '../../../src/base/errors.ts';
import { apply } from '../../../src/stream/apply.ts';
import { prepare } from '../../../src/group/prepare.ts';
import { State } from '../../../src/stream/core/state.ts';
import {
  Command,
  type CommandFields,
  commandBytesMax,
  newCommandFields,
  writeCommand,
} from '../../../src/protocol/command.ts';
import { EntryBuilder, eachCommand } from '../../../src/group/entry.ts';
import { Reply } from '../../../src/protocol/reply.ts';
import { SortedMapTx } from '../sorted-map-tx.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

class Replica {
  readonly tx = new SortedMapTx();
  state: State;
  readonly #group: number;
  readonly #often: number;
  #entries: Uint8Array[] = [];

  constructor(group: number, often: number) {
    this.#group = group;
    this.#often = often;
    this.state = new State(group, this.tx);
  }

  apply(entry: Uint8Array): Reply {
    const reply = new Reply();
    this.#entries.push(entry);
    this.state.appliedIndex++;
    const command = new Command();
    const copy = entry.slice();
    eachCommand(copy, command, () => apply(this.state, command, reply));
    copy.fill(0xa5);
    if (this.#entries.length % this.#often === 0) this.flush();
    return reply;
  }

  flush(): void {
    this.tx.begin();
    this.state.flush();
    this.tx.commit();
    this.state.flushed();
    this.#entries = [];
  }

  /** The process ends, and what was not stored is applied again. */
  restart(): void {
    const entries = this.#entries;
    this.#entries = [];
    this.state = new State(this.#group, this.tx);
    for (const entry of entries) this.apply(entry);
  }

  rows(): string[] {
    for (let i = 0; i < 100; i++) this.flush();
    const rows: string[] = [];
    this.tx.range(new Uint8Array([0]), new Uint8Array([0xff, 0xff, 0xff]), false, (key, value) => {
      // Meta has no garbage to wait for.
      rows.push(`${hex(key)} ${hex(value)}`);
      return true;
    });
    return rows;
  }
}

export class Group {
  nowMs = 1_800_000_000_000;
  readonly replicas: readonly Replica[];

  constructor(number = 1) {
    this.replicas = [new Replica(number, 1), new Replica(number, 3), new Replica(number, 1000)];
  }

  get state(): State {
    return (this.replicas[1] as Replica).state;
  }

  do(kind: number, key: string, more: Partial<CommandFields> = {}): Reply {
    const [bucket = '', stream = ''] = key.split('/');
    const fields = { ...newCommandFields(), kind, bucket, stream, ...more };
    const bytes = new Uint8Array(commandBytesMax(fields));
    const view = new DataView(bytes.buffer);
    writeCommand(fields, bytes, view, 0);
    const command = new Command();
    command.read(bytes, view, 0);
    const entry = new EntryBuilder();
    const early = new Reply();
    if (!prepare(command, this.nowMs, entry, early)) return early;
    const data = entry.finish();
    const [first, ...others] = this.replicas.map((replica) => replica.apply(data));
    assert(first !== undefined);
    for (const other of others) assert.deepEqual({ ...other, body: undefined }, { ...first, body: undefined });
    return first;
  }

  code(kind: number, key: string, more: Partial<CommandFields> = {}): ErrorCode {
    return errorCode(this.do(kind, key, more).code);
  }

  restart(): void {
    for (const replica of this.replicas) replica.restart();
  }

  /** Tags of the rows that are there, in order. */
  tags(): string {
    const [first, ...others] = this.replicas.map((replica) => replica.rows());
    for (const other of others) assert.deepEqual(other, first, 'replicas hold the same rows');
    return [...new Set((first ?? []).map((row) => String.fromCharCode(Number.parseInt(row.slice(4, 6), 16))))].join('');
  }
}
