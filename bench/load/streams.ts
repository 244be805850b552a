// Preparing streams before the clock runs: creates and fills over a few connections.

import { HttpExchange, type HttpAnswer } from './exchange.ts';

/** Enough to let a durable server batch, few enough not to trouble the reference server. */
const SETUP_CONNECTIONS = 32;

export interface SetupRequest {
  readonly method: 'PUT' | 'POST';
  readonly path: string;
  readonly contentType?: string;
  readonly body?: Uint8Array;
}

/**
 * Runs all requests, each must answer 2xx. Requests of one `lane` stay in order, lanes run side by side. `token`: where the
 * server asks for one.
 */
export async function runLanes(
  port: number,
  lanes: readonly (readonly SetupRequest[])[],
  token?: string,
): Promise<void> {
  let nextLane = 0;
  const worker = async (): Promise<void> => {
    const exchange = await HttpExchange.open(port, token);
    for (let lane = lanes[nextLane++]; lane !== undefined; lane = lanes[nextLane++]) {
      for (const { method, path, contentType, body } of lane) {
        const answer = await exchange.request(method, path, contentType, body);
        if (answer.status < 200 || answer.status > 299) throw refusal(method, path, answer);
      }
    }
    exchange.close();
  };
  await Promise.all(Array.from({ length: Math.min(SETUP_CONNECTIONS, lanes.length) }, worker));
}

export async function createStreams(port: number, paths: readonly string[], token?: string): Promise<void> {
  const lanes = paths.map((path) => [{ method: 'PUT', path, contentType: 'application/octet-stream' } as const]);
  await runLanes(port, lanes, token);
}

function refusal(method: string, path: string, answer: HttpAnswer): Error {
  return new Error(`${method} ${path} answered ${answer.status}: ${answer.body.toString('utf8').slice(0, 200)}`);
}
