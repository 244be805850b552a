// Readers of a stream that is not there yet, on every node of a cluster: whichever makes it, all of them get it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';

const TEXT = { 'content-type': 'text/plain' };

test('a stream that is made through one node reaches those that wait for it on all nodes', async () => {
  await withCluster({ groups: 4, longPollTimeout: '60s' }, async (cluster) => {
    const waiters = async (): Promise<number> => {
      const all = cluster.ids.map(async (id) => (await cluster.metrics(id))['live_read_waiters']);
      return (await Promise.all(all)).reduce<number>((sum, count) => sum + Number(count), 0);
    };
    for (const [i, live] of ['long-poll', 'sse'].entries()) {
      const path = `/demo/late-${i}`;
      const asked = cluster.ids.map((id) =>
        fetch(`${cluster.node(id).url}${path}?offset=-1&live=${live}&wait=create${i === 0 ? '' : '&event=message'}`),
      );
      await until('all wait', async () => (await waiters()) === cluster.ids.length);
      await cluster.client(2).expect(201, 'PUT', path, TEXT, 'made');
      for (const answer of await Promise.all(asked)) {
        assert.equal(answer.status, 200);
        const reader = answer.body?.getReader();
        let text = '';
        for (const decoder = new TextDecoder(); !text.includes('made');)
          text += decoder.decode((await reader?.read())?.value ?? assert.fail(`it ended: ${text}`), { stream: true });
        if (live === 'sse') assert.match(text, /^event: message\ndata:made\nid: 0{19}4\n\n/);
        await reader?.cancel();
      }
      await until('none is left', async () => (await waiters()) === 0);
    }
  });
});
