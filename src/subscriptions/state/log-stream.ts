/** The internal stream with the subscription log. Clients can neither name nor list it (http/routes.ts). */
export const LOG_BUCKET = '__ds';
export const LOG_STREAM = 'log';
