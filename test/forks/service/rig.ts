// The service for forks over two groups without consensus, on simulated time.
import type { ForksResult } from '../../../src/protocol/queries/summaries.ts';
import { queryOf } from '../../support/asked-query.ts';
import assert from 'node:assert/strict';
import { type ErrorCode, errorNumber } from '../../../src/base/errors.ts';
import { ForkService } from '../../../src/forks/service/fork-service.ts';
import type { ForkPort } from '../../../src/forks/service/steps.ts';
import type { ReplyHandler } from '../../../src/ports.ts';
import { pendingNotifications, pinChecks } from '../../../src/stream/forks/pin.ts';
import { planRead } from '../../../src/stream/operations/read.ts';
import { Reply } from '../../../src/protocol/reply.ts';
import { type Request, requestFor } from '../../../src/protocol/request.ts';
import { Group } from '../../stream/forks/commands.ts';
import { COMMANDS, QUERIES } from '../../../src/protocol/operations.ts';
import { FakeRuntime } from '../../support/fake-runtime.ts';

export const TEXT = { contentType: 'text/plain' };
export const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text));

/** Streams in bucket a lie in the first group, all others in the second. */
export class Rig {
  readonly groups = [new Group(0), new Group(1)] as const;
  /** Runs instead of, or before, the answer to a request; returns the code of a refusal. */
  before: (request: Request) => ErrorCode | void = () => undefined;
  /** The quota; there is room unless a test says otherwise. */
  reserve: ForkPort['reserve'] = (_bucket, _bytes, done) => done({ used: () => undefined, end: () => undefined });
  readonly service: ForkService;
  readonly asked: number[] = [];
  readonly #runtime = new FakeRuntime();
  #tokens = 100;

  constructor() {
    this.service = new ForkService({
      gateway: {
        groupCount: 2,
        shardCount: 1,
        groupOf: (bucket) => (bucket === 'a' ? 0 : 1),
        send: (request, handler) => this.#send(request, handler),
      },
      writes: { send: (request, handler) => this.#send(request, handler) },
      reserve: (bucket, bytes, done, denied) => this.reserve(bucket, bytes, done, denied),
      runtime: this.#runtime,
      newToken: () => ++this.#tokens,
      pieceBytes: 4,
    });
  }

  pass(ms: number): Promise<void> {
    return this.#runtime.pass(ms);
  }

  async fork(name: string, from: string, offset = -1, subOffset = 0): Promise<Reply> {
    const [bucket = '', stream = ''] = name.split('/');
    const request = requestFor(COMMANDS.create, 0, { bucket, stream, payload: bytes('!'), ...TEXT });
    const [sourceBucket = '', source = ''] = from.split('/');
    let answer: Reply | undefined;
    const forkRequest = { bucket: sourceBucket, stream: source, offset, subOffset };
    const taken = this.service.create(request, forkRequest, {
      onReply: (reply) => (answer = Object.assign(new Reply(), reply)),
    });
    assert(taken);
    for (let i = 0; i < 40 && answer === undefined; i++) await this.pass(1000);
    assert(answer !== undefined, 'there is an answer');
    return answer;
  }

  text(name: string, from = 0): string {
    const reply = this.#read(name, from);
    assert.equal(reply.code, 0);
    return Buffer.from(reply.body ?? []).toString();
  }

  /** Rows about forks that are left in either group. */
  left(): string {
    return this.groups.map((group) => group.tags().replaceAll(/[bdfghmx]/g, '')).join('|');
  }

  #send(request: Request, handler: ReplyHandler): boolean {
    const { op, group } = request;
    this.asked.push(op);
    const reply = new Reply();
    const refused = this.before(request);
    if (refused !== undefined) reply.code = errorNumber(refused);
    else if (op === QUERIES.forks.number) this.#work(request, reply);
    else if (op === QUERIES.read.number) Object.assign(reply, this.#query(request));
    else {
      const { bucket, stream } = request.command;
      Object.assign(reply, this.groups[group as 0 | 1].do(op, `${bucket}/${stream}`, request.command));
    }
    queueMicrotask(() => handler.onReply(reply));
    return true;
  }

  #work(request: Request, reply: Reply): void {
    const { fromToken, pinChecksMax } = QUERIES.forks.request.read(queryOf(request));
    const found: { [Name in keyof ForksResult]: ForksResult[Name][number][] } = {
      pendingNotifications: [],
      pinChecks: [],
    };
    this.groups.forEach(({ state }, group) => {
      found.pendingNotifications.push(...pendingNotifications(state, 9, fromToken).map((one) => ({ group, ...one })));
      if (pinChecksMax > 0) found.pinChecks.push(...pinChecks(state, 0, 0, 9).map((one) => ({ group, ...one })));
    });
    QUERIES.forks.result.write(reply, found);
  }

  #read(name: string, from: number): Reply {
    const [bucket = '', stream = ''] = name.split('/');
    return this.#query(requestFor(QUERIES.read, bucket === 'a' ? 0 : 1, { bucket, stream, value: from }));
  }

  #query(request: Request): Reply {
    const { state } = this.groups[request.group as 0 | 1];
    const query = queryOf(request);
    const reply = new Reply();
    const head = state.find(query.bytes, query.keyAt, query.keyBytes);
    if (head === undefined) reply.code = errorNumber('STREAM_NOT_FOUND');
    else reply.body = planRead(state, head, QUERIES.read.request.read(query), reply)?.body.slice();
    return reply;
  }
}
