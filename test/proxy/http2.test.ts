// The front for browsers as it is shipped (scripts/docker/front.conf), in a real nginx: one HTTP/2 connection carries more
// event streams than a browser opens connections, and each sees what is appended at once. A session passes it too.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import { connect as connectTls } from 'node:tls';
import { test } from 'node:test';
import { READ, SessionClient } from '../session/client.ts';
import { makeCertificate } from '../support/certificate.ts';
import { readText } from '../support/containers.ts';
import { freePort } from '../support/ports.ts';
import { proxyMissing, startNginxWith } from '../support/proxies.ts';
import { removeFolder, temporaryFolder, withServer, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';

const STREAMS = 10;
const SEEN = /event: data\ndata:hello\n/;

test('ten event streams and an append share one HTTP/2 connection', { skip: proxyMissing('nginx') }, async (t) => {
  const folder = temporaryFolder('front');
  t.after(() => removeFolder(folder));
  const { certPath, keyPath } = makeCertificate(folder);
  await withServer({ cores: 1, groups: 4 }, async (server) => {
    const port = await freePort();
    const front = readText('scripts/docker/front.conf')
      .replace(
        /server millrace-0:4437;\s+server millrace-1:4437;\s+server millrace-2:4437;/,
        `server 127.0.0.1:${server.port};`,
      )
      .replace('listen 8443', `listen 127.0.0.1:${port}`)
      .replace('/run/secrets/front.crt', certPath)
      .replace('/run/secrets/front.key', keyPath);
    await startNginxWith(t, front, port);
    const session = connect(`https://127.0.0.1:${port}`, { ca: readFileSync(certPath) });
    t.after(() => session.destroy());
    await once(session, 'connect');
    assert.equal(session.alpnProtocol, 'h2');
    assert.equal(await statusOf(session, { ':method': 'PUT', ':path': '/b/s', 'content-type': 'text/plain' }), 201);
    const readers = Array.from({ length: STREAMS }, () => session.request({ ':path': '/b/s?offset=-1&live=sse' }));
    const all = readers.map((reader) => watch(reader));
    // Each is at the tail before anything is appended.
    for (const { begun } of all) await within(begun, PATIENCE_MS, 'the first control event of a stream');
    const append = { ':method': 'POST', ':path': '/b/s', 'content-type': 'text/plain' };
    assert.equal(await statusOf(session, append, 'hello'), 204, 'a request passes beside the streams');
    for (const { seen } of all) await within(seen, PATIENCE_MS, 'the append on every stream');
    const { body } = await server.admin.request('GET', '/__svc/metrics');
    const { sse_readers: count } = JSON.parse(body.toString()) as { readonly sse_readers?: number };
    assert.equal(count, STREAMS);
    for (const reader of readers) reader.close();
    // As a browser opens a WebSocket.
    const socket = connectTls({ host: '127.0.0.1', port, ca: readFileSync(certPath), ALPNProtocols: ['http/1.1'] });
    await once(socket, 'secureConnect');
    const client = await SessionClient.over(socket);
    assert.equal((await client.ask(READ, 1, 'b', 's', { offset: 0 })).body, 'hello');
    client.destroy();
  });
});

async function statusOf(session: ClientHttp2Session, headers: Record<string, string>, body = ''): Promise<number> {
  const stream = session.request(headers);
  stream.end(body);
  stream.resume();
  const [answer] = (await once(stream, 'response')) as [{ readonly ':status'?: number }];
  return answer[':status'] ?? 0;
}

interface Watched {
  readonly begun: Promise<void>;
  readonly seen: Promise<void>;
}

function watch(stream: ClientHttp2Stream): Watched {
  let text = '';
  const shows = (pattern: RegExp): Promise<void> =>
    new Promise((resolve) => stream.on('data', () => void (pattern.test(text) && resolve())));
  stream.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  return { begun: shows(/"upToDate":true/), seen: shows(SEEN) };
}
