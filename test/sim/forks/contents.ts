/**
 * Everything that each incarnation of a stream ever held, from the commands as they are first applied (reference.ts),
 * whatever happened to it since. A fork that becomes visible must hold what its source held, from where the source
 * began then.
 */
import { Buffer } from 'node:buffer';
import type { State } from '../../../src/stream/core/state.ts';
import { type Command } from '../../../src/protocol/command.ts';
import { decodeForkData } from '../../../src/protocol/fork-command.ts';
import { REPLY_CREATED, REPLY_DUPLICATE, type Reply } from '../../../src/protocol/reply.ts';
import { acceptedFrames } from '../frames.ts';
import type { World } from '../world.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';

interface Content {
  readonly base: number;
  text: string;
  /** Forks that are whole: where the inherited part ends. */
  inherited: number;
}

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1');

export class Contents {
  readonly counts = { forksWhole: 0, forksInherited: 0 };
  readonly #world: World;
  /** By group and incarnation. */
  readonly #lives = new Map<string, Content>();
  /** The pinned sources, by token. */
  readonly #sources = new Map<number, string>();

  constructor(world: World) {
    this.#world = world;
    for (const reference of world.checks.references) {
      const { after } = reference;
      reference.after = (state, command, reply) => {
        after(state, command, reply);
        if (reply.code === 0) this.#applied(state, command, reply);
      };
    }
  }

  #applied(state: State, command: Command, reply: Reply): void {
    const { kind, bytes, payloadAt, payloadBytes, forkToken } = command;
    if (kind === COMMANDS.forkPin.number) {
      this.#sources.set(forkToken, `${state.group}/${COMMANDS.forkPin.result.read(reply).incarnation}`);
      return;
    }
    const head = state.findAny(command.bytes, command.keyAt, command.keyBytes);
    if (head === undefined || reply.has(REPLY_DUPLICATE)) return;
    const name = `${state.group}/${head.incarnation}`;
    const payload = bytes.subarray(payloadAt, payloadAt + payloadBytes);
    switch (kind) {
      case COMMANDS.create.number:
        if (reply.has(REPLY_CREATED)) this.#add(name, text(payload));
        return;
      case COMMANDS.append.number:
        this.#add(name, text(payload));
        return;
      case COMMANDS.appendBatch.number:
        this.#add(
          name,
          acceptedFrames(payload, reply).reduce((all, { frame }) => all + text(frame), ''),
        );
        return;
      case COMMANDS.forkData.number: {
        const data = decodeForkData(payload);
        if (data !== undefined) this.#inherit(name, data.at, text(payload.subarray(data.bytesAt)), head.tail);
        return;
      }
      case COMMANDS.forkEnd.number:
        this.#whole(name, forkToken, text(payload), head.startOffset, head.tail);
    }
  }

  #add(name: string, more: string): void {
    const content = this.#lives.get(name) ?? { base: 0, text: '', inherited: -1 };
    content.text += more;
    this.#lives.set(name, content);
  }

  #inherit(name: string, at: number, more: string, tail: number): void {
    const content = this.#lives.get(name) ?? { base: at, text: '', inherited: -1 };
    this.#lives.set(name, content);
    if (at === content.base + content.text.length) content.text += more;
    if (content.base + content.text.length !== tail) this.#fail(`${name} ends at ${tail} while it is made`);
  }

  #whole(name: string, token: number, body: string, floor: number, tail: number): void {
    const fork = this.#lives.get(name);
    // A repetition.
    if (fork !== undefined && fork.inherited >= 0) return;
    const source = this.#lives.get(this.#sources.get(token) ?? '');
    if (fork === undefined || source === undefined) return this.#fail(`${name} is made of nothing`);
    const end = tail - body.length;
    const expected = source.text.slice(floor - source.base, end - source.base);
    if (fork.base !== floor || expected.length !== end - floor) this.#fail(`${name} holds [${floor}, ${end})`);
    if (fork.text !== expected) this.#fail(`${name} holds other bytes than its source`);
    fork.inherited = end;
    fork.text += body;
    this.counts.forksWhole++;
    if (end > floor) this.counts.forksInherited++;
    return undefined;
  }

  #fail(what: string): never {
    throw this.#world.failure(`fork: ${what}`);
  }
}
