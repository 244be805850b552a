// The official client suite gets this in place of its reference server: the same class, and behind it Millrace with a
// proxy that injects faults.
import { TestServer } from '../support/server.ts';
import { FaultProxy } from './fault-proxy.ts';

interface StandInOptions {
  readonly longPollTimeout?: number;
}

export class DurableStreamTestServer {
  readonly #server: TestServer;
  #proxy: FaultProxy | undefined;
  #url = '';

  constructor({ longPollTimeout = 500 }: StandInOptions = {}) {
    this.#server = new TestServer({ process: true, longPollTimeout: `${longPollTimeout}ms` });
  }

  get url(): string {
    return this.#url;
  }

  async start(): Promise<string> {
    await this.#server.start();
    this.#proxy = new FaultProxy(this.#server.port);
    this.#url = `http://127.0.0.1:${await this.#proxy.listen()}`;
    return this.#url;
  }

  async stop(): Promise<void> {
    this.#proxy?.close();
    await this.#server.stop();
    await this.#server.dispose();
  }
}
