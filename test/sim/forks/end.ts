/**
 * The end of a run with forks, without faults: no fork is left incomplete, each live fork and no other is pinned by its
 * source, also after sources have verified their pins, and when all of them are deleted nothing is left of them.
 */
import { errorCode } from '../../../src/base/errors.ts';
import { type Head, decodeHead } from '../../../src/stream/core/head.ts';
import { TAG, incarnationOf, lastPosition } from '../../../src/stream/core/keys.ts';
import { decodeOrigin, decodePin, decodeTombstone } from '../../../src/stream/core/fork-rows.ts';
import { readText } from '../../../src/base/text.ts';
import type { Clients } from '../clients.ts';
import type { Until } from '../liveness.ts';
import { createRequest } from '../requests.ts';
import type { World } from '../world.ts';
import type { ForkClients, Twig } from './clients.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';

/** Everything that waits for a clock that was an hour ahead is due then. */
const AHEAD_MS = 30 * 86_400_000;
const RETRY_MS = 150;

interface Found {
  readonly heads: Head[];
  /** source, fork, token. */
  readonly pins: Set<string>;
  /** The same, as the forks have it, or what is left of them. */
  readonly links: Set<string>;
  /** Tokens of the pins. */
  readonly tokens: Set<number>;
  unpins: number;
  tombstones: number;
}

const name = (key: Uint8Array): string => readText(key, 0, key.length).replace('\0', '/');

export class ForkEnd {
  readonly #world: World;
  readonly #all: Clients;
  readonly #clients: ForkClients;
  /** Tokens of forks that were asked after. */
  readonly #asked = new Set<number>();

  constructor(world: World, all: Clients, clients: ForkClients) {
    this.#world = world;
    this.#all = all;
    this.#clients = clients;
    for (const reference of world.checks.references) {
      const { after } = reference;
      reference.after = (state, command, reply) => {
        after(state, command, reply);
        if (command.kind === COMMANDS.forkCheck.number) this.#asked.add(command.forkToken);
      };
    }
  }

  run(until: Until): void {
    for (const node of this.#world.nodes) node.wallOffsetMs = AHEAD_MS;
    until(
      () => {
        const { heads, unpins } = this.#look();
        return unpins === 0 && heads.every(({ provisional }) => !provisional);
      },
      () => 'fork: one stays half-made, or a source is not told',
    );
    until(
      () => this.#difference() === '',
      () => this.#difference(),
    );
    // Most runs are over before it is time to ask.
    until(
      () => this.#unasked() === 0,
      () => `fork: ${this.#unasked()} are never asked after`,
    );
    until(
      () => this.#difference() === '',
      () => this.#difference(),
    );
    let left = this.#clients.twigs.length;
    for (const twig of this.#clients.twigs) this.#delete(twig, () => left--);
    until(
      () => left === 0,
      () => `fork: ${left} deletes do not succeed`,
    );
    until(
      () => this.#leftOver() === '',
      () => `fork: all are deleted, and there is still ${this.#leftOver()}`,
    );
    left = this.#clients.twigs.length;
    for (const twig of this.#clients.twigs) this.#create(twig, () => left--);
    until(
      () => left === 0,
      () => `fork: ${left} names are not free again`,
    );
    left = this.#clients.twigs.length;
    for (const twig of this.#clients.twigs) this.#delete(twig, () => left--);
    until(
      () => left === 0,
      () => `fork: ${left} deletes do not succeed`,
    );
  }

  #delete(twig: Twig, done: () => void): void {
    this.#clients.delete(twig, (code) => {
      if (code === 'OK' || code === 'STREAM_NOT_FOUND' || code === 'STREAM_DELETED') done();
      else this.#world.queue.after(RETRY_MS, () => this.#delete(twig, done));
    });
  }

  #create(twig: Twig, done: () => void): void {
    this.#all.send(this.#world.nodes[0]?.id ?? 1, createRequest(twig, -1), false, (reply) => {
      if (reply !== undefined && errorCode(reply.code) === 'OK') return done();
      return this.#world.queue.after(RETRY_MS, () => this.#create(twig, done));
    });
  }

  #difference(): string {
    const { pins, links } = this.#look();
    const lost = [...links].filter((link) => !pins.has(link));
    const idle = [...pins].filter((pin) => !links.has(pin));
    if (lost.length > 0) return `fork: ${lost[0]} is not known to its source`;
    return idle.length > 0 ? `fork: ${idle[0]} is kept by its source and is not there` : '';
  }

  #unasked(): number {
    return [...this.#look().tokens].filter((token) => !this.#asked.has(token)).length;
  }

  #leftOver(): string {
    const { pins, links, unpins, tombstones } = this.#look();
    const left = pins.size + links.size + unpins + tombstones;
    return left === 0
      ? ''
      : `${pins.size} pins, ${links.size} forks, ${unpins} pending notifications, ${tombstones} tombstones`;
  }

  /** Reads the rows of all groups. */
  #look(): Found {
    const found: Found = { heads: [], pins: new Set(), links: new Set(), tokens: new Set(), unpins: 0, tombstones: 0 };
    for (const reference of this.#world.checks.references) {
      const heads = new Map<number, Head>();
      const origins: [number, Uint8Array][] = [];
      for (const [key, value] of reference.rows()) {
        if (((key[0] as number) << 8) + (key[1] as number) !== reference.state.prefix) continue;
        const rest = key.subarray(3);
        switch (key[2]) {
          case TAG.head: {
            const head = decodeHead(rest.slice(), 0, value);
            heads.set(head.incarnation, head);
            break;
          }
          case TAG.fork:
            origins.push([incarnationOf(key), value]);
            break;
          case TAG.pin: {
            const { fork, source } = decodePin(value);
            const token = lastPosition(key);
            found.pins.add(`${name(fork)} of ${name(source)} (${token})`);
            found.tokens.add(token);
            break;
          }
          case TAG.tombstone: {
            const { unpin } = decodeTombstone(value);
            found.tombstones++;
            if (unpin !== undefined) found.links.add(`${name(rest)} of ${name(unpin.source)} (${unpin.token})`);
            break;
          }
          case TAG.unpin:
            found.unpins++;
            break;
          default:
        }
      }
      for (const [incarnation, row] of origins) {
        const head = heads.get(incarnation);
        if (head === undefined) throw this.#world.failure(`fork: a row is left of incarnation ${incarnation}`);
        const { token, source } = decodeOrigin(row);
        if (!head.provisional) found.links.add(`${name(head.key)} of ${name(source)} (${token})`);
      }
      found.heads.push(...heads.values());
    }
    return found;
  }
}
