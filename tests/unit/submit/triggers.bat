@echo off
rem run lunar-otter: 3 jobs in 2 waves to my 50%% 'queue' & more, account 111122223333, us-west-2
rem
rem Written by fairshare, which is not needed here. Needed: the AWS CLI (aws) and credentials of the account. The source
rem is in S3 already. After a failure or Ctrl-C run this again: what was sent is not sent again.
setlocal EnableExtensions DisableDelayedExpansion
cd /d "%~dp0" || exit /b 1
set TOTAL=3
set SENT=0
set LAST=
set "AWS_REGION=us-west-2"
set "AWS_DEFAULT_REGION=us-west-2"
set AWS_PAGER=
set AWS_DEFAULT_OUTPUT=json
set AWS_RETRY_MODE=standard
set AWS_MAX_ATTEMPTS=8
set AWS_CLI_FILE_ENCODING=UTF-8
set "AWS_ENDPOINT_URL_BATCH=https://proxy/a%%20b?x=1&y=2"

set "WHY=the AWS CLI (aws) is not on the PATH"
where aws >nul 2>nul || goto failed
set "WHY=the folder sent cannot be made"
if not exist sent mkdir sent || goto failed

rem Wave 1
set LEFT=
if not exist "sent\00001-lr_0_1_100____del__.json" set LEFT=1
if not exist "sent\00002-say__hi______really_.json" set LEFT=1
if not defined LEFT goto send1
call :wave 1 0 7200 43200 || goto failed
:send1
if not exist "sent\00001-lr_0_1_100____del__.json" (
  set "WHY=00001-lr_0_1_100____del__ was not accepted; if AWS says that its token was used before, make the file sent\00001-lr_0_1_100____del__.json"
  call aws batch submit-service-job --cli-input-json "file://requests/00001-lr_0_1_100____del__.json" >"sent\00001-lr_0_1_100____del__.part" || goto failed
  move /y "sent\00001-lr_0_1_100____del__.part" "sent\00001-lr_0_1_100____del__.json" >nul || goto failed
)
set /a SENT+=1
echo   %SENT% of %TOTAL%  00001-lr_0_1_100____del__
if not exist "sent\00002-say__hi______really_.json" (
  set "WHY=00002-say__hi______really_ was not accepted; if AWS says that its token was used before, make the file sent\00002-say__hi______really_.json"
  call aws batch submit-service-job --cli-input-json "file://requests/00002-say__hi______really_.json" >"sent\00002-say__hi______really_.part" || goto failed
  move /y "sent\00002-say__hi______really_.part" "sent\00002-say__hi______really_.json" >nul || goto failed
)
set /a SENT+=1
echo   %SENT% of %TOTAL%  00002-say__hi______really_

rem Wave 2
set LEFT=
if not exist "sent\00003-gr__er___kleiner.json" set LEFT=1
if not defined LEFT goto send2
call :wave 2 90 - 43200 || goto failed
:send2
if not exist "sent\00003-gr__er___kleiner.json" (
  set "WHY=00003-gr__er___kleiner was not accepted; if AWS says that its token was used before, make the file sent\00003-gr__er___kleiner.json"
  call aws batch submit-service-job --cli-input-json "file://requests/00003-gr__er___kleiner.json" >"sent\00003-gr__er___kleiner.part" || goto failed
  move /y "sent\00003-gr__er___kleiner.part" "sent\00003-gr__er___kleiner.json" >nul || goto failed
)
set /a SENT+=1
echo   %SENT% of %TOTAL%  00003-gr__er___kleiner

echo all %TOTAL% jobs are sent
exit /b 0

:failed
echo stopped: %WHY% 1>&2
echo %SENT% of %TOTAL% jobs are sent; run "%~nx0" again for the rest 1>&2
exit /b 1

rem Seconds since this was written, into NOW. cmd counts to 2147483647 only.
:clock
set NOW=
set "ASK=[DateTimeOffset]::UtcNow.ToUnixTimeSeconds() - 1796061600"
for /f %%t in ('powershell -NoProfile -Command "%ASK%"') do set NOW=%%t
if not defined NOW exit /b 1
exit /b 0

rem call :wave NUMBER GAP OPENS CLOSES: GAP seconds after the wave before, not before OPENS nor from CLOSES on.
:wave
set "WHY=PowerShell does not tell the time"
call :clock || exit /b 1
set DUE=%NOW%
if defined LAST set /a DUE=LAST+%2
if not "%3"=="-" if %DUE% lss %3 set DUE=%3
set /a LEFT=DUE-NOW
if %LEFT% gtr 0 echo wave %1 of 2 in %LEFT% s
:waiting
call :clock || exit /b 1
set /a LEFT=DUE-NOW
if %LEFT% leq 0 goto open
if %LEFT% gtr 60 set LEFT=60
rem timeout refuses to work without a console, in the Task Scheduler for instance.
timeout /t %LEFT% /nobreak >nul 2>nul || ping -n 2 127.0.0.1 >nul
goto waiting
:open
set "WHY=the window of wave %1 has closed; export the run again"
if not "%4"=="-" if %NOW% geq %4 exit /b 1
set /a LATE=NOW-DUE
set LAST=%DUE%
if %LATE% gtr 2 set LAST=%NOW%
echo wave %1 of 2
exit /b 0
