// Changes of who votes, through the admin routes of whichever node leads.
import assert from 'node:assert/strict';
import type { TestCluster } from '../support/cluster.ts';
import { assertDocumented } from '../support/documented.ts';
import { type RawResponse, requestOnce } from '../support/raw-client.ts';
import { until } from '../support/until.ts';

/** Asks the current leader of the group. */
export async function changeMembership(cluster: TestCluster, group: number, call: string): Promise<RawResponse> {
  let granted: RawResponse | undefined;
  // A concurrent change, or a leadership transfer, is over after a moment.
  await until(`group ${group} takes ${call}`, async () => {
    const leader = await cluster.leaderOf(group);
    const url = `/__svc/raft/${group}/${call}`;
    const answer = await requestOnce(cluster.node(leader).adminPort, 'POST', url);
    assertDocumented('POST', url, answer, answer.body.toString());
    const said = `${call} on node ${leader}: ${answer.status} ${answer.body.toString('utf8')}`;
    assert([200, 409, 503].includes(answer.status), said);
    if (answer.status === 200) granted = answer;
    return granted !== undefined;
  });
  return granted as unknown as RawResponse;
}

export async function expectVoters(
  cluster: TestCluster,
  ids: readonly number[],
  voters: readonly number[],
): Promise<void> {
  for (const id of ids) {
    await until(`node ${id} knows the voters ${voters.join(', ')}`, async () =>
      (await cluster.groups(id)).every((group) => group.voter_ids.join() === voters.join()),
    );
  }
}
