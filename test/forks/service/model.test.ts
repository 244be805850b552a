// Random lives of streams and their forks against a model that knows nothing of groups, steps, pins or tombstone rows:
// a fork is a copy, and a name is taken until the stream and all that was forked from it are gone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCode } from '../../../src/base/errors.ts';
import { createRandom } from '../../support/random.ts';
import { Rig, TEXT, bytes } from './rig.ts';
import { COMMANDS } from '../../../src/protocol/operations.ts';

const NAMES = ['a/1', 'a/2', 'a/3', 'b/1', 'b/2', 'b/3'];
const ROUNDS = 60;
const STEPS = 60;

class Life {
  /** Messages; undefined: the stream is removed, its name is not free. */
  messages: string[] | undefined = [];
  readonly source: Life | undefined;
  /** Living forks, and removed ones that are kept by theirs. */
  forks = 0;
  constructor(source: Life | undefined) {
    this.source = source;
    if (source !== undefined) source.forks++;
  }

  get text(): string {
    return (this.messages ?? []).join('');
  }
}

class Model {
  readonly lives = new Map<string, Life>();

  create(name: string): string {
    const life = this.lives.get(name);
    if (life !== undefined) return life.messages === undefined ? 'NAME_HELD' : 'exists';
    this.lives.set(name, new Life(undefined));
    return 'OK';
  }

  append(name: string, message: string): string {
    const life = this.lives.get(name);
    if (life?.messages === undefined) return this.#missing(life);
    life.messages.push(message);
    return 'OK';
  }

  delete(name: string): string {
    const life = this.lives.get(name);
    if (life?.messages === undefined) return this.#missing(life);
    life.messages = undefined;
    this.#free(life);
    return 'OK';
  }

  fork(name: string, from: string, offset: number, sub: number): string {
    const life = this.lives.get(name);
    if (life !== undefined) return life.messages === undefined ? 'NAME_HELD' : 'exists';
    const source = this.lives.get(from);
    if (source === undefined) return 'FORK_SOURCE_NOT_FOUND';
    if (source.messages === undefined) return 'FORK_SOURCE_DELETED';
    const { text } = source;
    if (offset > text.length) return 'FORK_BEYOND_TAIL';
    const anchor = offset < 0 ? text.length : offset;
    let end = 0;
    for (const message of source.messages) if (end <= anchor) end += message.length;
    if (anchor + sub > Math.max(anchor, end)) return 'FORK_SUB_OFFSET_BEYOND';
    const fork = new Life(source);
    fork.messages = cut(source.messages, anchor + sub);
    fork.messages.push('!');
    this.lives.set(name, fork);
    return 'OK';
  }

  #missing(life: Life | undefined): string {
    return life === undefined ? 'STREAM_NOT_FOUND' : 'STREAM_DELETED';
  }

  #free(life: Life): void {
    if (life.messages !== undefined || life.forks > 0) return;
    for (const [name, one] of this.lives) if (one === life) this.lives.delete(name);
    if (life.source === undefined) return;
    life.source.forks--;
    this.#free(life.source);
  }
}

function cut(messages: readonly string[], end: number): string[] {
  const kept: string[] = [];
  let at = 0;
  for (const message of messages) {
    if (at < end) kept.push(message.slice(0, end - at));
    at += message.length;
  }
  return kept;
}

test('forks are copies, and a name is free when all its descendants are gone', async () => {
  const random = createRandom(17);
  const seen = new Set<string>();
  for (let round = 0; round < ROUNDS; round++) {
    const rig = new Rig();
    const model = new Model();
    const trouble = random.pick([0, 0.05, 0.2]);
    rig.before = ({ op, group, command }) => {
      if (!random.chance(trouble)) return undefined;
      if (op < 32 && random.chance(0.5))
        rig.groups[group as 0 | 1].do(op, `${command.bucket}/${command.stream}`, command);
      return op < 32 ? 'OUTCOME_UNKNOWN' : 'CATCHING_UP';
    };
    const group = (name: string) => rig.groups[name.startsWith('a') ? 0 : 1];
    for (let step = 0; step < STEPS; step++) {
      const name = random.pick(NAMES);
      const what = random.pick(['create', 'append', 'append', 'delete', 'delete', 'fork', 'fork', 'fork']);
      let [expected, found] = ['', ''];
      if (what === 'create') {
        [expected, found] = [model.create(name), group(name).code(COMMANDS.create.number, name, TEXT)];
        // Which of the streams that are there could have been made by such a request is nothing to the model.
        if (expected === 'exists' && (found === 'OK' || found === 'CREATE_CONFLICT')) expected = found;
      } else if (what === 'append') {
        const message = `${step}`.repeat(random.int(1, 4));
        expected = model.append(name, message);
        found = group(name).code(COMMANDS.append.number, name, { ...TEXT, payload: bytes(message) });
      } else if (what === 'delete') {
        expected = model.delete(name);
        const reply = group(name).do(COMMANDS.deleteStream.number, name);
        found = errorCode(reply.code);
        let told = false;
        const gone = found === 'OK' ? COMMANDS.deleteStream.result.read(reply) : undefined;
        if (gone === undefined) told = true;
        else rig.service.tell(name.startsWith('a') ? 0 : 1, gone, () => (told = true));
        for (let i = 0; i < 40 && !told; i++) await rig.pass(1000);
        assert(told);
      } else {
        const from = random.pick(NAMES.filter((other) => other !== name));
        const offset = random.chance(0.4) ? -1 : random.int(0, (model.lives.get(from)?.text.length ?? 0) + 1);
        const sub = offset >= 0 && random.chance(0.4) ? random.int(0, 3) : 0;
        expected = model.fork(name, from, offset, sub);
        found = errorCode((await rig.fork(name, from, offset, sub)).code);
        // A repetition of the fork that is there, or not.
        if (expected === 'exists' && (found === 'OK' || found === 'CREATE_CONFLICT')) expected = found;
      }
      assert.equal(found, expected, `round ${round} step ${step}: ${what} ${name}`);
      seen.add(`${what} ${found}`);
      if (random.chance(0.1)) for (const one of rig.groups) one.restart();
      for (const [one, { messages, text }] of model.lives)
        if (messages !== undefined) assert.equal(rig.text(one), text);
      // The source is told of refused forks behind the answer.
      await rig.pass(100);
    }
    rig.before = () => undefined;
    rig.service.start();
    for (const name of NAMES) group(name).do(COMMANDS.deleteStream.number, name);
    await rig.pass(60_000);
    rig.service.stop();
    assert.equal(rig.left(), '|', `round ${round}`);
  }
  for (const what of [
    'fork OK',
    'fork FORK_SUB_OFFSET_BEYOND',
    'fork FORK_SOURCE_DELETED',
    'fork NAME_HELD',
    'append STREAM_DELETED',
  ]) {
    assert(seen.has(what), what);
  }
});
