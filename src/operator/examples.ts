/** What --help shows below the flags of a verb; a test reads each line as the tool would. */
export const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  status: ['millracectl status --config /etc/millrace/cluster.toml', 'millracectl status --json'],
  'wait-ready': ['millracectl wait-ready --expected-groups 16 --timeout-secs 300'],
  drain: ['millracectl drain --node 2 --dry-run', 'millracectl drain --node 2'],
  undrain: ['millracectl undrain --node 2'],
  restart: [
    "millracectl restart --restart-cmd 'ssh {host} sudo systemctl restart millrace' --dry-run",
    "millracectl restart --only 2,3 --restart-cmd 'ssh {host} sudo systemctl restart millrace'",
  ],
  wait: ['millracectl wait --node 2'],
  'verify-cluster': ['millracectl verify-cluster --timeout-secs 30'],
  'allow-rejoin': ['millracectl allow-rejoin --node 3'],
  members: ['millracectl members'],
  'add-member': ['millracectl add-member --node 4 --addr 10.0.0.4:4440'],
  'remove-member': ['millracectl remove-member --node 3'],
  quota: [
    'millracectl quota --bucket demo',
    'millracectl quota --bucket demo --max-streams 1000 --max-retained-bytes 1073741824',
  ],
  purge: ['millracectl purge --bucket demo --confirm demo'],
  'flush-cold': ['millracectl flush-cold --bucket demo --stream log'],
  'webhook-keys': ['millracectl webhook-keys', 'millracectl webhook-keys --rotate'],
  'prepare-restart': ['millracectl prepare-restart --node 3'],
  'backup-create': [
    'millracectl backup-create --location /var/backups/millrace/2026-11-21',
    'millracectl backup-create --location s3://backups/millrace/2026-11-21 --json',
  ],
  'backup-verify': ['millracectl backup-verify --location s3://backups/millrace/2026-11-21'],
  restore: [
    'millracectl restore --config drill.toml --location /var/backups/millrace/2026-11-21',
    'millracectl restore --config drill.toml --location /var/backups/millrace/2026-11-21 --resume',
  ],
};
