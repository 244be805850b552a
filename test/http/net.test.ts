// Handlers with every bug that would end the process: each ends in an answer or with its connection, and one log line.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serve } from '../../src/http/server.ts';
import { CorsPolicy } from '../../src/access/cors.ts';
import { RequestAdmission } from '../../src/access/admission.ts';
import { guardData, readData, whenWritable } from '../../src/http/guard.ts';
import type { RequestContext } from '../../src/http/request.ts';
import type { Handler } from '../../src/http/router.ts';
import { HttpNode, HttpServerContext } from '../../src/http/server-context.ts';
import type { UwsResponse } from '../../src/http/uws.ts';
import { loadUws } from '../../src/http/uws.ts';
import { ConnectionLost, RawClient } from '../support/raw-client.ts';
import { ScriptedGateway } from '../support/scripted-gateway.ts';
import { testContext } from './test-context.ts';

interface Bug {
  readonly what: string;
  /** 0: the connection is closed. */
  readonly status: number;
  readonly route: Handler;
}

const boom = (): never => {
  throw new Error('boom');
};

function resOf({ res }: RequestContext): UwsResponse {
  assert.ok(res !== undefined);
  return res;
}

const BUGS: readonly Bug[] = [
  { what: 'a throw before anything', status: 500, route: boom },
  { what: 'a return without an answer', status: 500, route: () => undefined },
  {
    what: 'a throw behind the status line',
    status: 0,
    route: (call) => {
      call.responder.begin(resOf(call), 200);
      boom();
    },
  },
  {
    what: 'a return behind the status line',
    status: 0,
    route: (call) => call.responder.begin(resOf(call), 200),
  },
  {
    what: 'a throw behind the answer',
    status: 200,
    route: (call) => {
      call.responder.json(resOf(call), 200, '{}');
      boom();
    },
  },
  {
    what: 'a throw behind an answer that was written past the responder',
    status: 200,
    route: (call) => {
      resOf(call).end('ok');
      boom();
    },
  },
  {
    what: 'a throw of a handler that keeps the response',
    status: 500,
    route: (call) => {
      call.keep();
      boom();
    },
  },
  {
    what: 'a throw in the callback of the body',
    status: 500,
    route: (call) => {
      call.keep();
      readData(resOf(call), guardData(server.logError, call, boom));
    },
  },
  {
    what: 'a throw in the callback of the body, by a handler whose end throws too',
    status: 0,
    route: (call) => {
      const res = resOf(call);
      call.follow({
        gone: () => undefined,
        fail: () => {
          res.close();
          boom();
        },
      });
      readData(res, guardData(server.logError, call, boom));
    },
  },
  {
    what: 'a throw when the client is gone',
    status: 0,
    route: (call) => {
      const res = resOf(call);
      call.follow({ gone: boom, fail: () => undefined });
      setImmediate(() => res.close());
    },
  },
  {
    what: 'a throw when the socket has room',
    status: 0,
    route: (call) => {
      const res = resOf(call);
      call.follow({ gone: () => undefined, fail: () => void res.close() });
      whenWritable(res, server.logError, call, boom);
      setImmediate(() => res.cork(() => res.tryEnd(new Uint8Array(1 << 26), 1 << 26)));
    },
  },
  {
    what: 'an async handler that fails before it takes the response over',
    status: 500,
    route: (async () => {
      await Promise.resolve();
      boom();
    }) as Handler,
  },
  {
    what: 'an async handler that fails afterwards',
    status: 500,
    route: (async (call: RequestContext) => {
      call.keep();
      await Promise.resolve();
      boom();
    }) as unknown as Handler,
  },
];

const errors: unknown[] = [];
const requestIds = new Set<string | undefined>();
const server = new HttpServerContext(
  new HttpNode(
    testContext(new ScriptedGateway(), {
      logError: (error, _what, requestId) => {
        errors.push(error);
        requestIds.add(requestId);
      },
    }),
  ),
);

for (const { what, status, route } of BUGS) {
  test(`${what}: ${status === 0 ? 'the connection is closed' : status}, and the next request is served`, async (t) => {
    errors.length = 0;
    requestIds.clear();
    const uws = loadUws();
    const app = uws.App();
    let current = route;
    serve(app, {
      server,
      cors: new CorsPolicy([], 'GET, OPTIONS'),
      admission: new RequestAdmission({
        policy: { refuses: () => undefined },
        token: '',
        routes: { access: () => 'token' },
      }),
      router: { route: (call) => current(call), allow: () => '', access: () => 'token' },
    });
    const port = await new Promise<number>((resolve) => {
      app.listen('127.0.0.1', 0, (socket) => resolve(socket === false ? 0 : uws.us_socket_local_port(socket)));
    });
    t.after(() => app.close());
    const client = await RawClient.connect(port);
    t.after(() => client.destroy());
    const asked = client.request('POST', '/x', { 'X-Request-Id': 'x' }, 'body');
    if (status === 0) await assert.rejects(asked, ConnectionLost);
    else {
      const answer = await asked;
      assert.equal(answer.status, status);
      if (status >= 400) assert.equal(answer.headers.get('x-request-id'), 'x');
    }
    assert.ok(errors.length > 0, 'it was logged');
    assert.deepEqual([...requestIds], ['x'], 'with the id that the client sent');
    current = (call) => call.json(200, {});
    const next = await RawClient.connect(port);
    t.after(() => next.destroy());
    assert.equal((await next.request('GET', '/x')).status, 200);
    assert.equal(server.open, 0);
  });
}
