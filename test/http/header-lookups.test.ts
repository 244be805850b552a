// A request's cost in calls to the native half: its headers are walked over once, and no code asks for one of them
// again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CorsPolicy } from '../../src/access/cors.ts';
import { serve } from '../../src/http/server.ts';
import { ClientPolicy, RequestAdmission } from '../../src/access/admission.ts';
import { ClientRouter } from '../../src/http/router.ts';
import { bindRows } from '../../src/http/routes/table.ts';
import { HttpNode, HttpServerContext } from '../../src/http/server-context.ts';
import { type UwsApp, type UwsRequest, loadUws } from '../../src/http/uws.ts';
import { requestOnce } from '../support/raw-client.ts';
import { ScriptedGateway } from '../support/scripted-gateway.ts';
import { newOperations } from './planes.ts';
import { testContext } from './test-context.ts';

/** The app, whose requests note what they are asked. */
function noting(app: UwsApp, asked: string[]): UwsApp {
  const noted: (register: UwsApp['any']) => UwsApp['any'] = (register) => (pattern, handler) =>
    register.call(app, pattern, (res, req) => {
      const watched = new Proxy(req, {
        get: (target, name: keyof UwsRequest) => {
          asked.push(name);
          return target[name].bind(target);
        },
      });
      return handler(res, watched);
    });
  return { ...app, any: noted(app.any), post: noted(app.post) };
}

const TOKEN = 'c'.repeat(32);

for (const token of ['', TOKEN]) {
  test(`an append ${token === '' ? 'without' : 'with'} a token: one walk, one look at the URL, no look-up of a single header`, async (t) => {
    const gateway = new ScriptedGateway();
    const server = new HttpServerContext(new HttpNode(testContext(gateway, { writes: gateway.writes })));
    const uws = loadUws();
    const app = uws.App();
    const asked: string[] = [];
    const cors = new CorsPolicy(['loopback'], 'GET, OPTIONS');
    const hosts = { listen: '127.0.0.1', names: ['x'] };
    const router = new ClientRouter(bindRows('client', { ...newOperations(gateway), knows: () => false }), gateway);
    const policy = new ClientPolicy({ hosts, cors, hasToken: token !== '', routes: router });
    serve(noting(app, asked), {
      server,
      cors,
      admission: new RequestAdmission({ policy, token, routes: router }),
      router,
    });
    const port = await new Promise<number>((resolve) => {
      app.listen('127.0.0.1', 0, (socket) => resolve(socket === false ? 0 : uws.us_socket_local_port(socket)));
    });
    t.after(() => app.close());
    const headers = { 'content-type': 'text/plain', authorization: `Bearer ${token}` };
    const { status } = await requestOnce(port, 'POST', '/b/s', headers, Buffer.from('x'));
    assert.equal(status, 204);
    assert.deepEqual(asked, ['forEach', 'getUrl']);
  });
}
