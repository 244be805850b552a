// A replica with a cold store, driven step by step.
import assert from 'node:assert/strict';
import type { Head } from '../../../src/stream/core/head.ts';
import type { ColdPlan } from '../../../src/protocol/cold.ts';
import { createRandom } from '../../support/random.ts';
import { checkColdRows } from './rows.ts';
import { ColdRun } from './run.ts';
import type { ModelCommand } from '../model-command.ts';
import { Proposer } from '../propose.ts';
import { plainCommand } from '../random-commands.ts';
import { type Answer, GROUP, Replica } from '../replica.ts';
import { COMMANDS, QUERIES } from '../../../src/protocol/operations.ts';
import { requestFor } from '../../../src/protocol/request.ts';

export const NOW = 1_700_000_000_000;

export class Rig {
  readonly replica = new Replica();
  readonly cold = new ColdRun(createRandom(1));
  readonly #proposer = new Proposer();
  #index = 0;
  plan: ColdPlan | undefined = undefined;

  constructor() {
    this.replica.fetch = (plan) => {
      this.plan = plan;
      return this.cold.chunks(plan);
    };
  }

  get state(): Replica['state'] {
    return this.replica.state;
  }

  run(stream: string, fields: Partial<ModelCommand>): string {
    this.#proposer.add({ ...plainCommand(NOW, 'bucket', stream), ...fields }, undefined, false);
    return this.commit(this.#proposer.finish());
  }

  commit(data: Uint8Array): string {
    return this.replica
      .applyEntry(++this.#index, data)
      .map(({ code }) => code)
      .join(' ');
  }

  create(stream: string, type: string): void {
    assert.equal(this.run(stream, { kind: 'create', type }), 'OK');
  }

  append(stream: string, type: string, text: string): void {
    assert.equal(this.run(stream, { type, body: new Uint8Array(Buffer.from(text)) }), 'OK');
  }

  /** Uploads and publishes up to this many bytes; returns the number of chunks. */
  flush(maxBytes = Infinity): number {
    const flush = this.cold.upload(this.state, { hotBeforeMs: Infinity, maxBytes });
    if (flush === undefined) return 0;
    this.commit(this.cold.entry(flush, NOW));
    return flush.list.slices.length;
  }

  head(stream: string): Head {
    const key = new Uint8Array(Buffer.from(`bucket\0${stream}`));
    const head = this.state.find(key, 0, key.length);
    assert(head !== undefined);
    return head;
  }

  read(stream: string, value: number, more: { mode?: number; maxRecords?: number; readFlags?: number } = {}): Answer {
    const request = requestFor(QUERIES.read, 0, { bucket: 'bucket', stream, value, ...more });
    return this.replica.query(request, NOW);
  }

  expire(): void {
    assert.equal(this.commit(this.cold.propose(COMMANDS.expire.number, 'bucket', new Uint8Array(0), NOW)), 'OK');
  }

  collectAll(): void {
    for (;;) {
      const data = this.cold.collect(this.state, NOW, 100, true);
      if (data === undefined) return;
      this.commit(data);
    }
  }

  check(): void {
    this.replica.settle();
    checkColdRows(this.replica.tx, GROUP, this.state);
  }
}
