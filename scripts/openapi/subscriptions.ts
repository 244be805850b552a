/** Operations on subscriptions. All their refusals are JSON objects. */
import { ERRORS, type ErrorCode } from '../../src/base/errors.ts';
import type { Content, Operations, OwnRefusal } from './operation.ts';

const ERROR: Content = { 'application/json': 'SubscriptionError' };

const own = (status: number, code: string, text: string): OwnRefusal => ({ status, code, text, content: ERROR });

const INVALID = own(400, 'INVALID_REQUEST', 'the path or the body is malformed');
const NOT_FOUND = own(404, 'SUBSCRIPTION_NOT_FOUND', 'there is no such subscription');
const FENCED = own(409, 'FENCED', 'the wake is over, or belongs to another worker');
const LIMIT = own(429, 'LIMIT_EXCEEDED', 'there is no room for more subscriptions or streams');
const SCOPE = own(403, 'INSUFFICIENT_SCOPE', 'the token does not allow to subscribe to all of it, or to read it');
const TOO_LARGE = own(413, 'INVALID_REQUEST', 'the body is too large');
const TOKEN = [
  own(401, 'TOKEN_INVALID', 'the token is not that of the wake'),
  own(401, 'TOKEN_EXPIRED', 'the token is too old'),
];

/** A refusal of the table of errors, as JSON. */
function json(code: ErrorCode): OwnRefusal {
  const { flat: status, retry, text } = ERRORS[code];
  return { status, code, text, content: ERROR, ...(retry ? { retry: true as const } : {}) };
}

/** The log of subscriptions is a stream. */
const LOG = [
  ...(['NO_LEADER', 'LEADER_BUSY', 'OUTCOME_UNKNOWN', 'CATCHING_UP', 'SHARD_BUSY', 'DISK_FULL'] as const).map(json),
  'INTERNAL' as const,
];
const FULL: OwnRefusal = { ...json('INFLIGHT_FULL'), content: { 'application/json': 'SubscriptionsFull' } };
const BODY = [TOO_LARGE, FULL] as const;
const SUBSCRIPTION = '/v1/stream/__ds/subscriptions/{id}';

export const SUBSCRIPTION_OPERATIONS: Operations = {
  'GET /v1/stream/__ds/jwks.json': {
    id: 'readWebhookKeys',
    tag: 'subscriptions',
    summary: 'The public keys that webhooks are signed with.',
    answers: [
      {
        status: 200,
        text: 'The keys; none before the first subscription.',
        content: { 'application/jwk-set+json': 'KeySet' },
      },
    ],
    refusals: LOG,
  },

  [`PUT ${SUBSCRIPTION}`]: {
    id: 'createSubscription',
    tag: 'subscriptions',
    summary: 'Creates a subscription.',
    text: 'It needs a `pattern`, `streams` or both, and `webhook.url` or `wake_stream`, by its type.',
    body: { text: 'The subscription.', content: { 'application/json': 'SubscriptionRequest' }, isRequired: true },
    answers: [
      { status: 201, text: 'It is new.', content: { 'application/json': 'Subscription' } },
      { status: 200, text: 'It exists alike.', content: { 'application/json': 'Subscription' } },
    ],
    refusals: [
      ...LOG,
      INVALID,
      SCOPE,
      own(400, 'WEBHOOK_URL_REJECTED', 'the URL is not one that webhooks may have'),
      own(409, 'SUBSCRIPTION_ALREADY_EXISTS', 'it exists with another configuration'),
      LIMIT,
      { ...own(429, 'SUBSCRIPTIONS_LIMITED', 'the token has as many as its limit allows'), retry: true },
    ],
    bodyRefusals: BODY,
  },

  [`GET ${SUBSCRIPTION}`]: {
    id: 'readSubscription',
    tag: 'subscriptions',
    summary: 'Shows a subscription, its streams and cursors.',
    answers: [{ status: 200, text: 'The subscription.', content: { 'application/json': 'Subscription' } }],
    refusals: [...LOG, INVALID, NOT_FOUND],
  },

  [`DELETE ${SUBSCRIPTION}`]: {
    id: 'deleteSubscription',
    tag: 'subscriptions',
    summary: 'Removes a subscription, if it is there.',
    answers: [{ status: 204, text: 'There is none.' }],
    refusals: [...LOG, INVALID],
    bodyRefusals: BODY,
  },

  [`POST ${SUBSCRIPTION}/streams`]: {
    id: 'addStreams',
    tag: 'subscriptions',
    summary: 'Names more streams.',
    body: { text: 'Their paths.', content: { 'application/json': 'StreamPaths' }, isRequired: true },
    answers: [{ status: 204, text: 'They belong to the subscription.' }],
    refusals: [...LOG, INVALID, SCOPE, NOT_FOUND, LIMIT],
    bodyRefusals: BODY,
  },

  [`DELETE ${SUBSCRIPTION}/streams/{path}`]: {
    id: 'removeStream',
    tag: 'subscriptions',
    summary: 'Takes a stream out.',
    answers: [{ status: 204, text: 'It does not belong to the subscription.' }],
    refusals: [...LOG, INVALID, NOT_FOUND],
    bodyRefusals: BODY,
  },

  [`POST ${SUBSCRIPTION}/claim`]: {
    id: 'claimWake',
    tag: 'subscriptions',
    summary: 'A worker takes the wake and its lease.',
    body: { text: 'Who takes it.', content: { 'application/json': 'Claim' }, isRequired: true },
    answers: [{ status: 200, text: 'The wake and its token.', content: { 'application/json': 'Claimed' } }],
    refusals: [
      ...LOG,
      INVALID,
      NOT_FOUND,
      FENCED,
      own(409, 'ALREADY_CLAIMED', 'another worker holds the lease'),
      own(409, 'NO_PENDING_WORK', 'the subscription has no pending events'),
    ],
    bodyRefusals: BODY,
  },

  ...acknowledgement('callback', 'callBack', 'A webhook acknowledges, extends the lease, or ends the wake.'),
  ...acknowledgement('ack', 'acknowledge', 'A worker acknowledges, extends the lease, or ends the wake.'),

  [`POST ${SUBSCRIPTION}/release`]: {
    id: 'releaseWake',
    tag: 'subscriptions',
    summary: 'A worker gives the wake back.',
    authorization: 'wake token',
    body: { text: 'Which wake.', content: { 'application/json': 'Acknowledgement' }, isRequired: true },
    answers: [{ status: 204, text: 'Other workers may take it.' }],
    refusals: [...LOG, INVALID, ...TOKEN, NOT_FOUND, FENCED],
    bodyRefusals: BODY,
  },
};

function acknowledgement(action: string, id: string, summary: string): Operations {
  return {
    [`POST ${SUBSCRIPTION}/${action}`]: {
      id,
      tag: 'subscriptions',
      summary,
      text: 'With `"done":true` the wake ends, and everything that it brought is acknowledged.',
      authorization: 'wake token',
      body: {
        text: 'The wake, and how far each stream is done.',
        content: { 'application/json': 'Acknowledgement' },
        isRequired: true,
      },
      answers: [
        { status: 200, text: 'Noted; whether another wake follows.', content: { 'application/json': 'Acknowledged' } },
      ],
      refusals: [
        ...LOG,
        INVALID,
        ...TOKEN,
        NOT_FOUND,
        FENCED,
        own(409, 'INVALID_OFFSET', 'the offset is none of the stream, or lies beyond its tail, or the stream is gone'),
      ],
      bodyRefusals: BODY,
    },
  };
}
