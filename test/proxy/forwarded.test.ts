// The audit log behind real proxies: it names the client's address, and not what the client says that it is.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { proxyMissing, startHaproxy, startNginx } from '../support/proxies.ts';
import { requestOnce } from '../support/raw-client.ts';
import { withServer } from '../support/server.ts';
import { until } from '../support/until.ts';

const NGINX = {
  location: `proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;`,
};

const PROXIES = {
  nginx: (t: TestContext, upstreamPort: number) => startNginx(t, { upstreamPort, ...NGINX }),
  haproxy: (t: TestContext, upstreamPort: number) => startHaproxy(t, { upstreamPort, forwardsAddress: true }),
} as const;

for (const [name, start] of Object.entries(PROXIES) as [keyof typeof PROXIES, (typeof PROXIES)['nginx']][]) {
  test(`behind ${name} a line names the client, whatever it sends`, { skip: proxyMissing(name) }, async (t) => {
    await withServer({ http: 'trusted_proxies = ["127.0.0.1"]\n' }, async (server) => {
      const port = await start(t, server.port);
      // The client is on this host as well, so its address is a trusted proxy's and what it wrote before counts.
      for (const [sent, from] of [
        ['203.0.113.9', '203.0.113.9'],
        ['203.0.113.9, not-an-address', '127.0.0.1'],
        ['198.51.100.1, 203.0.113.9', '203.0.113.9'],
      ] as const) {
        const at = server.log().length;
        await requestOnce(port, 'DELETE', '/b/s', { 'X-Forwarded-For': sent });
        await until('the line is there', () => server.log().slice(at).includes('"event":"deleted"'));
        const line = server
          .log()
          .slice(at)
          .split('\n')
          .find((one) => one.includes('"event":"deleted"'));
        const { from: told, via } = JSON.parse(line ?? '') as { from: string; via?: string };
        assert.deepEqual([told, via], [from, '127.0.0.1'], sent);
      }
    });
  });
}
