import {
  type PublicKeyCredentialCreationOptionsJSON,
  type PublicKeyCredentialRequestOptionsJSON,
  type RegistrationResponseJSON,
  startAuthentication,
  startRegistration,
} from '@simplewebauthn/browser'
import { call, callAuth } from '../../api.ts'

export type NewPasskey = RegistrationResponseJSON

/** Creates a passkey on the device for the signed-in user. Throws an Error with a message for the user. */
export async function createPasskey(): Promise<NewPasskey> {
  const optionsJSON = await call<PublicKeyCredentialCreationOptionsJSON>(
    '/dashboard/api/auth/passkey/generate-register-options',
  )
  return startRegistration({ optionsJSON }).catch(explain)
}

/** Signs in with a passkey that the user chooses. Throws an Error with a message for the user. */
export async function signInWithPasskey(): Promise<void> {
  const options = await call<PublicKeyCredentialRequestOptionsJSON>(
    '/dashboard/api/auth/passkey/generate-authenticate-options',
  )
  const response = await startAuthentication({ optionsJSON: { ...options, userVerification: 'required' } }).catch(
    explain,
  )
  await callAuth('passkey/verify-authentication', { response })
}

/** Messages for the errors of browsers. */
function explain(error: Error): never {
  const texts: Record<string, string> = {
    NotAllowedError: 'The request was cancelled or timed out. Try again.',
    InvalidStateError: 'This device already has a passkey for your account.',
    SecurityError: 'Passkeys only work at the address that the operator configured as PUBLIC_URL.',
    NotSupportedError: 'This browser or device does not support passkeys.',
  }
  throw new Error(texts[error.name] ?? `The browser refused: ${error.message}`, { cause: error })
}
