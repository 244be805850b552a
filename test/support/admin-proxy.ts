// A proxy between the operator's tool and a node's admin plane: a test sees every call and may change its answer.
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Call {
  readonly method: string;
  readonly path: string;
}

/** The tool's answer in place of the node's; `lost` ends the connection without one, `silent` leaves it open. */
export type Verdict = 'pass' | 'lost' | 'silent' | { readonly status: number; readonly body: string };

export class AdminProxy {
  readonly #server: Server;
  /** Changes from a node's address: its port changes with no restart. */
  readonly #target: string;
  /** Before the node sees the call. */
  before: (call: Call) => Verdict = () => 'pass';
  /** When the node has answered, before the tool knows: `lost` keeps it from the answer. */
  after: (call: Call) => 'lost' | void = () => undefined;

  private constructor(target: string) {
    this.#target = target;
    this.#server = createServer((request, response) => {
      const call = { method: request.method ?? '', path: request.url ?? '' };
      const verdict = this.before(call);
      if (verdict === 'silent') return undefined;
      if (verdict === 'lost') return void response.destroy();
      if (verdict !== 'pass') return void response.writeHead(verdict.status).end(verdict.body);
      const headers =
        request.headers.authorization === undefined ? {} : { authorization: request.headers.authorization };
      void fetch(this.#target + call.path, { method: call.method, headers }).then(
        async (answer) => {
          const body = Buffer.from(await answer.arrayBuffer());
          if (this.after(call) === 'lost') response.destroy();
          else response.writeHead(answer.status).end(body);
        },
        () => response.destroy(),
      );
      return undefined;
    });
  }

  static async start(target: string): Promise<AdminProxy> {
    const proxy = new AdminProxy(target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  reset(): void {
    this.before = () => 'pass';
    this.after = () => undefined;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
