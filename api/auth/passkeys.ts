import type { PasskeyOptions } from '@better-auth/passkey'
import { APIError } from 'better-auth/api'

/** Passkeys are a whole sign-in: the device must have asked for a finger, a face or a PIN, and be found without an email. */
export function passkeyOptions(publicUrl: string): PasskeyOptions {
  const verified = (is: boolean | undefined) => {
    if (!is) throw new APIError('BAD_REQUEST', { code: 'USER_NOT_VERIFIED', message: notVerified })
  }
  return {
    rpID: new URL(publicUrl).hostname,
    rpName: 'Headgate',
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    advanced: { webAuthnChallengeCookie: 'passkey_challenge' },
    registration: {
      afterVerification: async ({ verification }) => verified(verification.registrationInfo?.userVerified),
    },
    authentication: {
      afterVerification: async ({ verification }) => verified(verification.authenticationInfo.userVerified),
    },
  }
}

const notVerified = 'Your device did not check that it is you: use one with a fingerprint, face recognition or a PIN.'
