// Subscriptions without a server: a fold, a clock, and streams that are numbers.
import assert from 'node:assert/strict';
import { type Step, type StreamTail, decide } from '../../../src/subscriptions/state/decide.ts';
import { Machine, type MachineListener } from '../../../src/subscriptions/state/machine.ts';
import type { SubscriptionCommand, OutcomeCode } from '../../../src/subscriptions/state/record.ts';
import type { SubscriptionConfig, LinkPosition, Subscription } from '../../../src/subscriptions/state/subscription.ts';

export const LEASE_MS = 10_000;

export const WEBHOOK: SubscriptionConfig = {
  type: 'webhook',
  pattern: 'events/*',
  streams: [],
  url: 'https://receiver.example/hook',
  wake_stream: null,
  lease_ttl_ms: LEASE_MS,
  description: null,
};

export const PULL: SubscriptionConfig = { ...WEBHOOK, type: 'pull-wake', url: null, wake_stream: 'events/wake' };

const SILENT: MachineListener = {
  added: () => undefined,
  changed: () => undefined,
  removed: () => undefined,
  linked: () => undefined,
  unlinked: () => undefined,
};

export class Scene {
  readonly machine: Machine;
  readonly tails = new Map<string, StreamTail>();
  nowMs = 1_000_000;
  #wakes = 0;

  constructor(listener: MachineListener = SILENT) {
    this.machine = new Machine(listener);
  }

  static with(config: SubscriptionConfig, ...links: LinkPosition[]): Scene {
    const scene = new Scene();
    for (const [path, incarnation, offset] of links) scene.tails.set(path, { incarnation, offset });
    scene.does('CREATED', { op: 'create', ...scene.about, config, hash: JSON.stringify(config), base: '', links });
    return scene;
  }

  get about(): { readonly id: string; readonly at: number } {
    return { id: 's', at: this.nowMs };
  }

  get sub(): Subscription {
    const sub = this.machine.subscriptions.get('s');
    assert(sub !== undefined, 'there is a subscription');
    return sub;
  }

  append(path: string, offset: number, incarnation = 1): void {
    this.tails.set(path, { incarnation, offset });
  }

  does(code: OutcomeCode, command: SubscriptionCommand): void {
    assert.equal(this.machine.apply(command).code, code, JSON.stringify(command));
  }

  step(): Step {
    return decide(this.sub, (path) => this.tails.get(path), this.nowMs);
  }

  /** Takes the step that is due, which issues a wake; its name. */
  wakes(...paths: readonly string[]): string {
    const step = this.step();
    assert(step.do === 'wake', `a wake is due, not ${step.do}`);
    assert.deepEqual(
      step.tails.map(([path]) => path),
      paths,
    );
    const wake = `w${++this.#wakes}`;
    const generation = this.sub.generation + 1;
    this.does('OK', { op: 'wake', ...this.about, wake, generation, tails: step.tails });
    return wake;
  }

  ack(
    code: OutcomeCode,
    wake: string,
    acks: readonly LinkPosition[],
    done: boolean,
    generation = this.sub.generation,
  ): void {
    this.does(code, { op: 'ack', ...this.about, wake, generation, acks, done });
  }

  claim(code: OutcomeCode, worker: string, wake = 'claimed'): void {
    const tails = [...this.tails].map(([path, tail]): LinkPosition => [path, tail.incarnation, tail.offset]);
    this.does(code, { op: 'claim', ...this.about, wake, worker, tails });
  }

  acked(path: string): number | undefined {
    return this.sub.links.get(path)?.acked;
  }
}
