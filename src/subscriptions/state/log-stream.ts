/** The internal stream with the log of subscriptions. Clients can neither name nor list it (http/routes.ts). */
export const LOG_BUCKET = '__ds';
export const LOG_STREAM = 'log';
