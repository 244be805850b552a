// A shard with a cold store in memory, and the reading of whole streams through both.
import assert from 'node:assert/strict';
import type { Group } from '../../../src/group/group.ts';
import type { ColdSettings } from '../../../src/cold/ports.ts';
import type { ColdTier } from '../../../src/cold/shard/tier.ts';
import { assembleRead } from '../../../src/stream/cold/assemble.ts';
import { ReadCollector } from '../../../src/stream/core/collect.ts';
import { decodeColdPlan } from '../../../src/protocol/cold.ts';
import { REPLY_COLD, type Reply } from '../../../src/protocol/reply.ts';
import { requestFor } from '../../../src/protocol/request.ts';
import { FakeColdPort, type How, SETTINGS, digest } from './port.ts';
import { Harness, code, find } from '../../shard/harness.ts';
import { MemoryStorage } from '../../shard/memory-ports.ts';
import { QUERIES } from '../../../src/protocol/operations.ts';

export class ColdHarness extends Harness {
  readonly port: FakeColdPort;
  readonly settings: ColdSettings;

  constructor(settings: Partial<ColdSettings> = {}, groups: readonly number[] = [0]) {
    const port = new FakeColdPort();
    const all = { ...SETTINGS, ...settings };
    super(groups, new MemoryStorage(), { cold: { port, settings: all } });
    this.port = port;
    this.settings = all;
  }

  get tier(): ColdTier {
    const tier = this.shard.cold;
    assert(tier !== undefined);
    return tier;
  }

  groupOf(id = 0): Group {
    const group = this.shard.group(id);
    assert(group !== undefined);
    return group;
  }

  /** Another process on the same disk: answers to the old one's requests are lost. */
  restartWith(run: string): void {
    this.more = { cold: { port: this.port, settings: { ...this.settings, run } } };
    this.port.forget();
    this.restart();
  }

  override turn(afterMs = 1): Reply[] {
    const replies = super.turn(afterMs);
    this.port.nowMs = this.nowMs;
    return replies;
  }

  /** Turns with time passing; what the shard asks of the store is answered at once, or left open. */
  run(forMs: number, how: (op: string) => How | undefined = () => 'ok', stepMs = 25): void {
    for (let passed = 0; passed < forMs; passed += stepMs) {
      this.turn(stepMs);
      for (const asked of [...this.port.open]) {
        const answer = how(asked.task.op);
        if (answer !== undefined) this.port.perform(this.port.take(asked), answer);
      }
    }
    this.turn();
    this.turn();
  }

  /** A message from a leader of a later term arrives. */
  loseLeadership(id = 0): void {
    const { raft, state } = this.groupOf(id);
    raft.step({
      type: 'append',
      from: 2,
      to: 1,
      term: raft.term + 1,
      prevIndex: raft.lastIndex,
      prevTerm: state.appliedTerm,
      entries: [],
      commit: raft.commitIndex,
      round: 1,
      allowedBoot: 0,
      restored: false,
    });
    assert.equal(this.groupOf(id).leads, false);
  }

  flushCall(group: number, stream: string, least = 1, maxBytes = 0): number {
    const asked = { bucket: 'bucket', stream, minHotBytes: least, maxBytes };
    return this.push(requestFor(QUERIES.flushStream, group, asked));
  }

  /** The whole stream, through the cold store and the rows. */
  whole(stream: string, group = 0, from = 0): Buffer {
    const parts: Uint8Array[] = [];
    for (let offset = from; ;) {
      const slot = this.read(group, stream, 0, offset);
      let reply = find(this.turn(), slot);
      assert.equal(code(reply), 'OK', stream);
      if (reply.has(REPLY_COLD)) reply = this.#assemble(reply);
      parts.push((reply.body ?? new Uint8Array(0)).slice());
      if (reply.nextOffset === offset) return Buffer.concat(parts);
      offset = reply.nextOffset;
    }
  }

  #assemble(reply: Reply): Reply {
    const plan = decodeColdPlan(reply.body ?? new Uint8Array(0));
    const chunks = plan.refs.slice(0, plan.needed).map((ref) => {
      const stored = this.port.objects.get(ref.key);
      assert(stored !== undefined, `object ${ref.key} is in the store`);
      const bytes = stored.body.slice(ref.at, ref.at + ref.length);
      assert.deepEqual(digest(bytes), ref.digest, `chunk in ${ref.key}`);
      return bytes;
    });
    assembleRead(plan, chunks, reply, new ReadCollector());
    assert.equal(code(reply), 'OK');
    return reply;
  }
}
