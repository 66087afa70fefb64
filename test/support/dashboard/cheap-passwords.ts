import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'

/**
 * Password hashes cost a sixteenth of a second of CPU each by design, and tests of accounts sign in hundreds of times:
 * importing this makes the scrypt of this process cheap. Processes that tests start hash at the full cost.
 */
const cheap = { N: 16, r: 1 }
const { scrypt } = crypto

crypto.scrypt = ((
  password: crypto.BinaryLike,
  salt: crypto.BinaryLike,
  bytes: number,
  options: crypto.ScryptOptions,
  done: (error: Error | null, key: Buffer) => void,
) => scrypt(password, salt, bytes, { ...options, ...cheap }, done)) as typeof scrypt
syncBuiltinESMExports()
