// Three nats-servers with JetStream, streams replicated three times on disk, every default.

import { mkdirSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { NATS_CONNECT, NatsReader } from '../load/nats-publish.ts';
import { NATS_STREAMS, natsStream, natsSubject, natsSubjectsOf } from '../load/nats-subject.ts';
import { isInstalled } from '../processes.ts';
import { NODES, startNodes, type NodePlace } from './nodes.ts';
import type { RunningCluster, Target } from './target.ts';

const READY_TIMEOUT_MS = 30_000;
const READY_POLL_MS = 100;
/** A request made before the servers have elected a leader is never answered; it is repeated, which does no harm. */
const ANSWER_TIMEOUT_MS = 1_000;

function configuration(place: NodePlace, all: readonly NodePlace[]): string {
  const routes = all.map(({ clusterPort }) => `"nats://127.0.0.1:${clusterPort}"`);
  return `server_name: "node-${place.id}"
host: "127.0.0.1"
port: ${place.port}
jetstream { store_dir: "${place.dir}" }
cluster {
  name: "bench"
  host: "127.0.0.1"
  port: ${place.clusterPort}
  routes: [${routes.join(', ')}]
}
`;
}

/** Requests one after the other: for setting up, not for measuring. */
class NatsCaller {
  readonly #socket: Socket;
  readonly #reader = new NatsReader();
  #call = 0;
  #answer: ((text: string | undefined) => void) | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => {
      const reply = this.#reader.feed(chunk, {
        message: (subject, payload) => {
          if (subject === `_INBOX.setup.${this.#call}`) this.#answer?.(payload.toString('utf8'));
        },
        pong: () => {},
      });
      if (reply !== undefined) socket.write(reply);
    });
    socket.on('close', () => this.#answer?.(undefined));
    socket.write(`${NATS_CONNECT}SUB _INBOX.setup.* 1\r\n`);
  }

  static async open(port: number): Promise<NatsCaller> {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    return new NatsCaller(socket);
  }

  /** Undefined without an answer. */
  async request(subject: string, body: string): Promise<string | undefined> {
    const answer = new Promise<string | undefined>((resolve) => (this.#answer = resolve));
    const timer = setTimeout(() => this.#answer?.(undefined), ANSWER_TIMEOUT_MS);
    this.#socket.write(`PUB ${subject} _INBOX.setup.${++this.#call} ${body.length}\r\n${body}\r\n`);
    const text = await answer;
    clearTimeout(timer);
    return text;
  }

  close(): void {
    this.#socket.destroy();
  }
}

/** Repeats a request until its answer is good: elections take a while. */
async function insist(caller: NatsCaller, subject: string, body: string, deadline: number): Promise<void> {
  for (;;) {
    const answer = await caller.request(subject, body);
    // Created twice because the first answer was late: the same configuration is not an error.
    if (answer !== undefined && !answer.startsWith('NATS/') && !answer.includes('"error"')) return;
    if (Date.now() > deadline) throw new Error(`nats-server answers ${answer ?? 'nothing'} to ${subject}`);
    await sleep(READY_POLL_MS);
  }
}

async function ready(places: readonly NodePlace[]): Promise<void> {
  const deadline = Date.now() + READY_TIMEOUT_MS;
  for (const [turn, { port }] of places.entries()) {
    const caller = await NatsCaller.open(port);
    for (let number = 0; number < NATS_STREAMS; number++) {
      const name = natsStream(number);
      const settings = { name, subjects: [natsSubjectsOf(number)], num_replicas: NODES, storage: 'file' };
      if (turn === 0) await insist(caller, `$JS.API.STREAM.CREATE.${name}`, JSON.stringify(settings), deadline);
      await insist(caller, natsSubject(number), 'ready', deadline);
    }
    caller.close();
  }
}

export const nats: Target<RunningCluster> = {
  name: 'nats',
  durability:
    'none at acknowledgement: a majority of three nodes has written, fsync every 2 min (JetStream R3 publish)',
  missing: () => (isInstalled('nats-server') ? undefined : 'nats-server is not installed: apt install nats-server'),
  start: (options) =>
    startNodes(
      {
        name: 'nats',
        protocol: 'nats',
        end: 'kill',
        command: (place, all) => {
          mkdirSync(place.dir);
          const file = join(place.dir, 'nats.conf');
          writeFileSync(file, configuration({ ...place, dir: join(place.dir, 'data') }, all));
          return ['nats-server', '--config', file];
        },
        ready,
      },
      options,
    ),
};
