/**
 * Checks whether large messages reach other nodes: POST /__svc/cluster-probe with a body of zeros over a kept
 * connection to the cluster plane. Small messages prove little: a path that loses only large packets lets a leader send
 * heartbeats and no entries.
 */
import { Agent, type IncomingMessage, request } from 'node:http';
import { Agent as TlsAgent, request as requestTls } from 'node:https';
import type { Runtime } from '../base/runtime.ts';
import type { Address } from '../base/address.ts';
import type { PeerTls } from './tls.ts';

/** `unknown`: this process was suspended, so silence means nothing. `failed` includes every answer but 200. */
export type ProbeOutcome = 'reached' | 'failed' | 'unknown';

export interface ProbeOptions {
  readonly runtime: Pick<Runtime, 'monotonicMs' | 'setTimer'>;
  readonly sizeBytes: number;
  readonly timeoutMs: number;
  /** Decides whether a probe goes by TLS; undefined: none does. */
  readonly tls?: PeerTls;
  /** /__svc/cold-probe asks whether the node reaches the cold store. */
  readonly path?: string;
}

export class ClusterProbe {
  readonly #options: ProbeOptions;
  readonly #body: Buffer;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #tlsAgent = new TlsAgent({ keepAlive: true, maxSockets: 1, maxCachedSessions: 0 });

  constructor(options: ProbeOptions) {
    this.#options = options;
    this.#body = Buffer.alloc(options.sizeBytes);
  }

  /** Never rejects. One at a time for each node. */
  async probe(node: number, address: Address): Promise<ProbeOutcome> {
    const { runtime, timeoutMs } = this.#options;
    const deadlineMs = runtime.monotonicMs() + timeoutMs;
    const first = await this.#post(node, address, deadlineMs);
    // The other side may close a kept connection at the moment when it is reused.
    const outcome = first === 'stale' ? await this.#post(node, address, deadlineMs) : first;
    return outcome === 'stale' ? 'failed' : outcome;
  }

  close(): void {
    this.#agent.destroy();
    this.#tlsAgent.destroy();
  }

  #post(node: number, { host, port }: Address, deadlineMs: number): Promise<ProbeOutcome | 'stale'> {
    const { runtime, timeoutMs, tls, path = '/__svc/cluster-probe' } = this.#options;
    return new Promise((resolve) => {
      const headers = { 'content-type': 'application/octet-stream', 'content-length': this.#body.length };
      const onResponse = (res: IncomingMessage): void => {
        res.resume();
        res.on('end', () => end(res.statusCode === 200 ? 'reached' : 'failed'));
      };
      const asked = { host, port, path, method: 'POST', headers };
      const posted =
        tls?.dials === true
          ? requestTls({ ...asked, agent: this.#tlsAgent, ...tls.clientOptions(node) }, onResponse)
          : request({ ...asked, agent: this.#agent }, onResponse);
      const end = (outcome: ProbeOutcome | 'stale'): void => {
        cancelTimer();
        // Not kept when it failed: the next attempt must show whether a new connection gets through.
        if (outcome !== 'reached') posted.destroy();
        resolve(outcome);
      };
      const cancelTimer = runtime.setTimer(deadlineMs - runtime.monotonicMs(), () => {
        const lateMs = runtime.monotonicMs() - deadlineMs;
        // An answer already in the kernel is read before this callback runs.
        setImmediate(() => end(lateMs > timeoutMs / 4 ? 'unknown' : 'failed'));
      });
      posted.on('error', () => end(posted.reusedSocket ? 'stale' : 'failed'));
      posted.end(this.#body);
    });
  }
}
