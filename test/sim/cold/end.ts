/**
 * The end of a run with a cold store, without faults: all bytes leave the nodes, and when everything is deleted the
 * store becomes empty, whatever went wrong before.
 */
import { errorCode } from '../../../src/base/errors.ts';
import { MOVED_PREFIX } from '../../../src/store/rows.ts';
import { NO_ORIGIN, objectPrefix } from '../../../src/protocol/object-key.ts';
import type { Clients, SimStream } from '../clients.ts';
import { type Until } from '../liveness.ts';
import { Purging } from '../purging.ts';
import { BUCKET, PURGED_BUCKET, deleteRequest } from '../requests.ts';
import type { World } from '../world.ts';
import type { SimColdStore } from './store.ts';

/** Everything that waits for a clock that was an hour ahead is due then. */
const AHEAD_MS = 30 * 86_400_000;
const RETRY_MS = 150;
/** Tags (stream/core/keys.ts) of what a group holds besides hot bytes, */
const HOT_FREE = 'abcCFhimopPqsgTUwx';
/** and of what stays when everything is deleted. */
const EMPTY = 'bim';

function isGroupRow(key: string): boolean {
  return ((key.charCodeAt(0) << 8) | key.charCodeAt(1)) < MOVED_PREFIX;
}

export class ColdEnd {
  readonly #world: World;
  readonly #store: SimColdStore;
  readonly #clients: Clients;
  readonly #until: Until;
  readonly #purging: Purging;

  constructor(world: World, store: SimColdStore, clients: Clients, until: Until) {
    this.#world = world;
    this.#store = store;
    this.#clients = clients;
    this.#until = until;
    this.#purging = new Purging(world, clients);
  }

  /** Everything goes to the cold store. */
  drain(): void {
    for (const node of this.#world.nodes) node.wallOffsetMs = AHEAD_MS;
    const hot = (): number[] => this.#world.checks.references.map(({ state }) => state.hotBytes);
    this.#until(
      () => hot().every((bytes) => bytes === 0),
      () => `cold: hot bytes stay although the store works: ${hot().join(' ')}`,
    );
    this.#until(
      () => this.#rowsBut(HOT_FREE) === '',
      () => `cold: rows stay on the nodes although their bytes have left: ${this.#rowsBut(HOT_FREE)}`,
    );
    for (const { state } of this.#world.checks.references) {
      if (state.cold.origin === NO_ORIGIN) continue;
      this.#store.putForeign(`${objectPrefix(state.group, state.cold.origin)}foreign notes`);
    }
  }

  emptyStore(): void {
    const how = this.#store.options.end;
    if (how === 'keep') return;
    this.#clients.watching.stop();
    let left = 0;
    const done = (): void => void left--;
    if (how === 'delete') {
      for (const stream of this.#clients.streams) {
        left++;
        this.#delete(stream, done);
      }
    } else {
      for (const group of this.#world.options.groups) {
        for (const bucket of [BUCKET, PURGED_BUCKET]) {
          left++;
          this.#purge(group, bucket, done);
        }
      }
    }
    this.#until(
      () => left === 0,
      () => `cold: ${left} deletes do not succeed`,
    );
    const foreign = this.#store.foreign.size;
    this.#until(
      () => this.#store.ownObjects.length === 0 && this.#forgotten(),
      () => `cold: everything is deleted, and there is still ${this.#leftOver()}`,
    );
    this.#until(
      () => this.#rowsBut(EMPTY) === '',
      () => `cold: everything is deleted, and rows stay: ${this.#rowsBut(EMPTY)}`,
    );
    if (this.#store.objects.size !== foreign) throw this.#world.failure('cold: foreign objects are gone');
  }

  /** Rows of nodes with other tags than these. */
  #rowsBut(tags: string): string {
    const left: string[] = [];
    for (const { id, disk } of this.#world.nodes) {
      const others = disk.state.allKeys().filter((key) => isGroupRow(key) && !tags.includes(key[2] as string));
      if (others.length > 0)
        left.push(`n${id} ${others.length} (${[...new Set(others.map((key) => key[2]))].join('')})`);
    }
    return left.join(', ');
  }

  #forgotten(): boolean {
    return this.#world.checks.references.every(({ state: { cold, hotBytes } }) => {
      return cold.objects === 0 && cold.gcLength === 0 && cold.bytes === 0 && cold.objectBytes === 0 && hotBytes === 0;
    });
  }

  #leftOver(): string {
    const known = this.#world.checks.references.map(
      ({ state: { group, cold } }) => `g${group} ${JSON.stringify(cold)}`,
    );
    return [...this.#store.ownObjects.slice(0, 5), ...known].join(' ');
  }

  #delete(stream: SimStream, done: () => void): void {
    this.#clients.send(this.#node(), deleteRequest(stream), false, (reply) => {
      const code = reply === undefined ? 'OUTCOME_UNKNOWN' : errorCode(reply.code);
      if (code === 'OK' || code === 'STREAM_NOT_FOUND') return done();
      return this.#world.queue.after(RETRY_MS, () => this.#delete(stream, done));
    });
  }

  #purge(group: number, bucket: string, done: () => void): void {
    this.#purging.purge(this.#node(), group, bucket, (code) => {
      if (code === 'OK') done();
      else this.#world.queue.after(RETRY_MS, () => this.#purge(group, bucket, done));
    });
  }

  #node(): number {
    const { nodes } = this.#world;
    return nodes[Math.floor(this.#world.queue.nowMs) % nodes.length]?.id ?? 1;
  }
}
