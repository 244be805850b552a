/**
 * Checks whether large messages reach other nodes: POST /__svc/cluster-probe with a body of zeros over a kept
 * connection to the cluster plane. Small messages prove little: a path that loses only large packets lets a leader send
 * heartbeats and no entries.
 */
import { Agent, request } from 'node:http';
import type { Runtime } from '../base/runtime.ts';
import type { Address } from '../base/address.ts';

/** `unknown`: this process was suspended, so silence means nothing. `failed` includes every answer but 200. */
export type ProbeOutcome = 'reached' | 'failed' | 'unknown';

export interface ProbeOptions {
  readonly runtime: Pick<Runtime, 'monotonicMs' | 'setTimer'>;
  readonly sizeBytes: number;
  readonly timeoutMs: number;
  /** /__svc/cold-probe asks whether the node reaches the cold store. */
  readonly path?: string;
}

export class ClusterProbe {
  readonly #runtime: ProbeOptions['runtime'];
  readonly #body: Buffer;
  readonly #timeoutMs: number;
  readonly #path: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor({ runtime, sizeBytes, timeoutMs, path = '/__svc/cluster-probe' }: ProbeOptions) {
    this.#runtime = runtime;
    this.#body = Buffer.alloc(sizeBytes);
    this.#path = path;
    this.#timeoutMs = timeoutMs;
  }

  /** Never rejects. One at a time for each address. */
  async probe(address: Address): Promise<ProbeOutcome> {
    const deadlineMs = this.#runtime.monotonicMs() + this.#timeoutMs;
    const first = await this.#post(address, deadlineMs);
    // The other side may close a kept connection at the moment when it is reused.
    return first === 'stale' ? this.#settled(await this.#post(address, deadlineMs)) : first;
  }

  close(): void {
    this.#agent.destroy();
  }

  #settled(outcome: ProbeOutcome | 'stale'): ProbeOutcome {
    return outcome === 'stale' ? 'failed' : outcome;
  }

  #post({ host, port }: Address, deadlineMs: number): Promise<ProbeOutcome | 'stale'> {
    return new Promise((resolve) => {
      const headers = { 'content-type': 'application/octet-stream', 'content-length': this.#body.length };
      const posted = request({ host, port, path: this.#path, method: 'POST', agent: this.#agent, headers }, (res) => {
        res.resume();
        res.on('end', () => end(res.statusCode === 200 ? 'reached' : 'failed'));
      });
      const end = (outcome: ProbeOutcome | 'stale'): void => {
        cancelTimer();
        // Not kept when it failed: the next attempt must show whether a new connection gets through.
        if (outcome !== 'reached') posted.destroy();
        resolve(outcome);
      };
      const cancelTimer = this.#runtime.setTimer(deadlineMs - this.#runtime.monotonicMs(), () => {
        const lateMs = this.#runtime.monotonicMs() - deadlineMs;
        // An answer already in the kernel is read before this callback runs.
        setImmediate(() => end(lateMs > this.#timeoutMs / 4 ? 'unknown' : 'failed'));
      });
      posted.on('error', () => end(posted.reusedSocket ? 'stale' : 'failed'));
      posted.end(this.#body);
    });
  }
}
