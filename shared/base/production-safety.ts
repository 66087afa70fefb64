/** What the checks need of the environment's variables. */
type Settings = {
  DEV_OUTBOX: boolean
  ENCRYPTION_KEY?: readonly string[] | undefined
  SIGNING_SECRET?: readonly string[] | undefined
}

/** Below every key that is generated: 32 random hexadecimal digits have about 120 by this estimate. */
const minSecretBits = 80
/** What templates and examples put in place of a secret. */
const placeholders =
  /change[-_ ]?(?:me|this|it)|replace[-_ ]?(?:me|this|it)|example|sample|default|placeholder|insecure|password|secret|headgate|your|todo|please|production|x{3,}|(?:signing|encryption)[-_ ]?|key/gi

/** Whether an address is local: only programs on this machine can reach it. */
export function isLocalUrl(url: string): boolean {
  const { hostname } = new URL(url)
  return /^(?:localhost|.*\.localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname)
}

/**
 * Faults of development settings at an address that others reach; a process does not start with one. Of several keys or
 * secrets the first one counts: the others only decrypt or verify, while they are being replaced.
 */
export function findUnsafeSettings(settings: Settings, publicUrl: string): string[] {
  if (isLocalUrl(publicUrl)) return []
  const { DEV_OUTBOX: outbox, ENCRYPTION_KEY: keys, SIGNING_SECRET: secrets } = settings
  const weak = (name: string, value: string | undefined, way: string) =>
    value === undefined || secretBits(value) >= minSecretBits
      ? []
      : [`${name}: is easy to guess. Generate one (openssl rand -base64 32)${way}`]
  return [
    ...(outbox
      ? ['DEV_OUTBOX: shows everyone the links of emails, such as password resets. Not where PUBLIC_URL is not local']
      : []),
    ...weak('ENCRYPTION_KEY', keys?.[0], ', put it first and keep this one after it until `secrets encrypt` has run'),
    ...weak(
      'SIGNING_SECRET',
      secrets?.[0],
      ', put it first and keep this one after it (docs/decisions/secrets-at-rest.md)',
    ),
  ]
}

/**
 * An estimate of a secret's strength: the bits of the characters that do not follow from those before. Placeholders,
 * repetitions and sequences such as `abcd` and `4321` add nothing.
 */
function secretBits(secret: string): number {
  const text = secret.replace(placeholders, '')
  const seen = new Set<string>()
  let surprising = 0
  for (let i = 0; i < text.length; i++) {
    const step = text.charCodeAt(i) - text.charCodeAt(i - 1)
    const isSequence = i > 1 && Math.abs(step) <= 1 && step === text.charCodeAt(i - 1) - text.charCodeAt(i - 2)
    const three = text.slice(Math.max(0, i - 2), i + 1)
    if (!isSequence && !seen.has(three)) surprising++
    if (three.length === 3) seen.add(three)
  }
  return surprising * Math.log2(new Set(text).size || 1)
}
