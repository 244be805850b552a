// Sessions behind the proxies of other people, with the directives that the room's README names.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { APPEND, CREATE, DONE, SUBSCRIBE, SessionClient, TEXT } from '../session/client.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { proxyMissing, startHaproxy, startNginx } from '../support/proxies.ts';
import { withServer } from '../support/server.ts';

const PASSED = 'proxy_http_version 1.1; proxy_set_header Host $http_host;';
const UPGRADE = `${PASSED} proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection;`;

async function useSession(port: number, bucket: string): Promise<void> {
  const client = await SessionClient.connect(port);
  assert.equal(client.status, 101, client.head);
  assert.equal((await client.ask(CREATE, 1, bucket, 's', null, TEXT)).kind, DONE);
  const large = 'x'.repeat(200_000);
  client.send([SUBSCRIBE, 2, bucket, 's', 1_000_000, { offset: 0 }]);
  assert.equal((await client.ask(APPEND, 3, bucket, 's', Buffer.from(large), TEXT)).next, large.length);
  let seen = '';
  while (seen.length < large.length) seen += (await client.about(2)).body;
  assert.equal(seen, large);
  client.destroy();
}

test('a session passes nginx that hands the upgrade on', { skip: proxyMissing('nginx') }, async (t) => {
  assert(readFileSync(join(REPO_ROOT, 'src/session/README.md'), 'utf8').includes('proxy_http_version 1.1'));
  await withServer({}, async ({ port }) => {
    await useSession(await startNginx(t, { upstreamPort: port, location: UPGRADE }), 'nginx');
    // Without them it is a request like any other.
    const client = await SessionClient.connect(await startNginx(t, { upstreamPort: port, location: PASSED }));
    assert.equal(client.status, 426);
    client.destroy();
  });
});

test('a session passes HAProxy as it is', { skip: proxyMissing('haproxy') }, async (t) => {
  await withServer({}, async ({ port }) => await useSession(await startHaproxy(t, { upstreamPort: port }), 'haproxy'));
});
