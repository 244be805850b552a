import { useState } from 'preact/hooks';
import { isObject } from '../../nodes/report.ts';
import { deliverAgain } from '../model/actions.ts';
import { type SubscriptionRow, subscriptionsOf } from '../model/listings.ts';
import { formatNumber, formatTime } from '../model/units.ts';
import { NoAnswer, jsonOf, sentenceOf, sound } from './api.ts';
import { useLoad } from './load.ts';
import { ActionButton, Fact, Note, PageButtons, Table, useDesk } from './parts.tsx';

const NAMES: Readonly<Record<string, string>> = {
  total: 'Subscriptions',
  webhook: 'Webhooks',
  streams: 'Linked streams',
  wakes_under_way: 'Wakes under way',
  claimed: 'Leases held',
  failing: 'Failing',
  deliveries_under_way: 'Deliveries under way',
  deliveries_queued: 'Deliveries queued',
  delivered: 'Delivered since the start',
  delivery_failures: 'Failed deliveries since the start',
  leases_expired: 'Leases that expired',
  links_refused: 'Links without room',
};

export function SubscriptionsView() {
  const { watch } = useDesk();
  const told = watch.round.flatMap(({ nodeId, metrics }) => {
    const counts: unknown = metrics?.['subscriptions'];
    return isObject(counts) ? [{ nodeId, counts }] : [];
  });
  // The node that delivers counts what happens; what there is, all nodes know.
  const driver = told.find(({ counts }) => counts['driving'] === true) ?? told[0];
  if (driver === undefined) return <p>No node tells of subscriptions.</p>;
  const { counts, nodeId } = driver;
  const failing = Number(counts['failing'] ?? 0);
  return (
    <>
      {failing > 0 && (
        <Note kind="warn">
          {failing === 1 ? 'One subscription fails' : `${failing} subscriptions fail`}: its last delivery was refused or
          not answered, and is tried again.
        </Note>
      )}
      <p>
        {counts['driving'] === true
          ? `Node ${nodeId} delivers.`
          : 'The node that delivers is not among those that are asked here.'}
      </p>
      <dl class="facts">
        {Object.entries(NAMES).map(([name, label]) => (
          <Fact key={name} name={label}>
            {formatNumber(Number(counts[name] ?? 0))}
          </Fact>
        ))}
      </dl>
      <SubscriptionList node={nodeId} isDriver={counts['driving'] === true} />
    </>
  );
}

const COLUMNS = ['Subscription', 'Receiver', 'Streams', 'State', 'Failures', 'Last error', 'Lease', 'Actions'];

interface ListProps {
  readonly node: number;
  readonly isDriver: boolean;
}

function SubscriptionList({ node, isDriver }: ListProps) {
  const { watch } = useDesk();
  const [starts, setStarts] = useState<readonly string[]>(['']);
  const path = `/__svc/subscriptions?after=${encodeURIComponent(starts.at(-1) ?? '')}`;
  const { value, problem, again } = useLoad(`${node} ${path}`, async (signal) => {
    const answer = await watch.api.node(node, path, { signal });
    if (answer.status !== 200) throw new NoAnswer(sentenceOf(answer));
    return sound(subscriptionsOf(jsonOf(answer)));
  });
  return (
    <section aria-labelledby="subscriptions">
      <h2 id="subscriptions">All subscriptions</h2>
      <p class="buttons">
        <button type="button" onClick={again}>
          Look again
        </button>
        <PageButtons starts={starts} next={value?.next} show={setStarts} />
      </p>
      {problem !== undefined && <Note kind="bad">{problem}</Note>}
      {value?.rows.length === 0 && <p>There are none.</p>}
      {value !== undefined && value.rows.length > 0 && (
        <Table label="subscriptions" columns={COLUMNS}>
          {value.rows.map((row) => (
            <Row key={row.id} row={row} driver={isDriver ? node : undefined} done={again} />
          ))}
        </Table>
      )}
    </section>
  );
}

interface RowProps {
  readonly row: SubscriptionRow;
  /** Undefined: the node that delivers is not asked here. */
  readonly driver: number | undefined;
  readonly done: () => void;
}

function Row({ row, driver, done }: RowProps) {
  const { id, type, target, streams, state, failures, lastError, isPaused, leaseUntilMs, holder } = row;
  return (
    <tr class={failures > 0 ? 'warn' : ''}>
      <th scope="row">{id}</th>
      <td>
        {type} {target}
      </td>
      <td class="number">{streams}</td>
      <td>{state}</td>
      <td class="number">{failures}</td>
      <td>{lastError}</td>
      <td>
        {holder} {leaseUntilMs === undefined ? '' : `until ${formatTime(leaseUntilMs)}`}
      </td>
      <td>
        {isPaused && driver !== undefined && (
          <ActionButton action={deliverAgain(id, driver)} label="Deliver again" done={done} />
        )}
      </td>
    </tr>
  );
}
