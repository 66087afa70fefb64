import type { PasskeyOptions } from '@better-auth/passkey'
import { APIError } from 'better-auth/api'

/**
 * A passkey replaces the whole sign-in: the device must verify the user (fingerprint, face or PIN) and the passkey must
 * be discoverable without an email.
 */
export function passkeyOptions(publicUrl: string): PasskeyOptions {
  const assertUserVerified = (is: boolean | undefined) => {
    if (!is) throw new APIError('BAD_REQUEST', { code: 'USER_NOT_VERIFIED', message: notVerified })
  }
  return {
    rpID: new URL(publicUrl).hostname,
    rpName: 'Headgate',
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    advanced: { webAuthnChallengeCookie: 'passkey_challenge' },
    registration: {
      afterVerification: async ({ verification }) => assertUserVerified(verification.registrationInfo?.userVerified),
    },
    authentication: {
      afterVerification: async ({ verification }) => assertUserVerified(verification.authenticationInfo.userVerified),
    },
  }
}

const notVerified = 'Your device did not verify you: use one with a fingerprint, face recognition or a PIN.'
