import {
  type PublicKeyCredentialCreationOptionsJSON,
  type PublicKeyCredentialRequestOptionsJSON,
  type RegistrationResponseJSON,
  startAuthentication,
  startRegistration,
} from '@simplewebauthn/browser'
import { call, callAuth } from '../../api.ts'

export type NewPasskey = RegistrationResponseJSON

/** Has the device make a passkey for whoever is signed in. Throws an Error that says what to do. */
export async function createPasskey(): Promise<NewPasskey> {
  const optionsJSON = await call<PublicKeyCredentialCreationOptionsJSON>(
    '/dashboard/api/auth/passkey/generate-register-options',
  )
  return startRegistration({ optionsJSON }).catch(explain)
}

/** Signs in with a passkey that the person chooses. Throws an Error that says what to do. */
export async function signInWithPasskey(): Promise<void> {
  const options = await call<PublicKeyCredentialRequestOptionsJSON>(
    '/dashboard/api/auth/passkey/generate-authenticate-options',
  )
  const response = await startAuthentication({ optionsJSON: { ...options, userVerification: 'required' } }).catch(
    explain,
  )
  await callAuth('passkey/verify-authentication', { response })
}

/** What browsers say of a failure, in words. */
function explain(error: Error): never {
  const texts: Record<string, string> = {
    NotAllowedError: 'Nothing was chosen, or the time was up. Try again.',
    InvalidStateError: 'This device has a passkey of your account already.',
    SecurityError: 'Passkeys work only at the address that the operator has set as PUBLIC_URL.',
    NotSupportedError: 'This browser or device has no passkeys.',
  }
  throw new Error(texts[error.name] ?? `The browser refused: ${error.message}`, { cause: error })
}
